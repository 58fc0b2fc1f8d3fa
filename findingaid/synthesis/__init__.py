"""Who writes synopses. All synthesizers stand behind one protocol, `findingaid.model.Synthesizer`."""

from findingaid.model import Synthesizer
from findingaid.registry import Registry

SYNTHESIZERS: Registry[Synthesizer] = Registry(
    "synthesizer",
    "kind",
    {
        "custom": "findingaid.synthesis.custom:Custom",
        "extractive": "findingaid.synthesis.extractive:Extractive",
        "none": "findingaid.synthesis.none:NoSynthesizer",
    },
)

__all__ = ["SYNTHESIZERS"]
