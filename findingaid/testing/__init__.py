"""Fakes that behave as the real ones do, for tests of findingaid and of what is built on it.

Each stands at the boundary, behind the protocol of the real thing, so that tests patch nothing: objects in memory,
and a server on loopback that speaks the OpenAI API, with everything that can go wrong with it in `faults`.
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
