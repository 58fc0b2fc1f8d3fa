"""Who writes synopses. All synthesizers stand behind one protocol, `findingaid.model.Synthesizer`."""

from findingaid.model import Synthesizer
from findingaid.registry import Registry

SYNTHESIZERS: Registry[Synthesizer] = Registry(
    "synthesizer",
    "kind",
    {
        "custom": "findingaid.synthesis.custom:Custom",
        "extractive": "findingaid.synthesis.extractive:Extractive",
        "openai": "findingaid.synthesis.openai_chat:OpenAISynthesizer",
        "none": "findingaid.synthesis.none:NoSynthesizer",
    },
)

__all__ = ["SYNTHESIZERS"]
