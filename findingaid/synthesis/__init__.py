"""Synthesizers, which write synopses. All implement the protocol `findingaid.protocols.Synthesizer`."""

from findingaid.protocols import Synthesizer
from findingaid.registry import Registry
from findingaid.synthesis.anchored_summary import Summarizer

SYNTHESIZERS: Registry[Synthesizer] = Registry(
    "synthesizer",
    "kind",
    Synthesizer,
    "findingaid.synthesizers",
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
    Summarizer,
    "findingaid.summarizers",
    {
        "extractive": "findingaid.synthesis.extractive_summary:ExtractiveSummarizer",
        "openai": "findingaid.synthesis.openai_summary:OpenAISummarizer",
    },
)
"""Summarizers, which write the anchored summaries of the synthesizer "anchored"."""

__all__ = ["SUMMARIZERS", "SYNTHESIZERS"]
