"""Fakes that behave like the real components, for tests of findingaid and of programs built on it.

Each fake implements the protocol of the real component, so that tests need no patching. There are in-memory objects and
a loopback server that speaks the OpenAI API. `faults` has the errors that the server can simulate.
"""

from findingaid.embedding.hashing import HashEmbedder
from findingaid.testing import faults
from findingaid.testing.fakes import CountingEmbedder, MemorySource, ScriptedSynthesizer
from findingaid.testing.faults import Fault
from findingaid.testing.http import Request
from findingaid.testing.openai_server import OpenAIServer

__all__ = [
    "CountingEmbedder",
    "Fault",
    "HashEmbedder",
    "MemorySource",
    "OpenAIServer",
    "Request",
    "ScriptedSynthesizer",
    "faults",
]
