"""Who writes synopses. All synthesizers stand behind one protocol, `findingaid.model.Synthesizer`."""

from findingaid.model import Synthesizer
from findingaid.registry import Registry
from findingaid.summaries import Summarizer

SYNTHESIZERS: Registry[Synthesizer] = Registry(
    "synthesizer",
    "kind",
    {
        "anchored": "findingaid.synthesis.anchored:Anchored",
        "custom": "findingaid.synthesis.custom:Custom",
        "extractive": "findingaid.synthesis.extractive:Extractive",
        "openai": "findingaid.synthesis.openai_chat:OpenAISynthesizer",
        "none": "findingaid.synthesis.none:NoSynthesizer",
    },
)

SUMMARIZERS: Registry[Summarizer] = Registry(
    "summarizer",
    "kind",
    {
        "extractive": "findingaid.synthesis.extractive_summary:ExtractiveSummarizer",
        "openai": "findingaid.synthesis.openai_summary:OpenAISummarizer",
    },
)
"""Who writes the anchored summaries of the synthesizer "anchored"."""

__all__ = ["SUMMARIZERS", "SYNTHESIZERS"]
