"""Contract of every synthesizer; the extractive one takes whole sentences from the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import Synthesizer
from findingaid.errors import SynthesisError
from findingaid.model import SynthesizerInput
from findingaid.protocols import ConcurrentSynthesizer
from findingaid.synthesis.anchored import Anchored
from findingaid.synthesis.extractive import Extractive, centrality, sentences_of
from findingaid.synthesis.none import NoSynthesizer
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.synthesis.openai_summary import OpenAISummarizer
from findingaid.testing import OpenAIServer, ScriptedSynthesizer

EVERY: dict[str, Callable[[OpenAIServer], Synthesizer]] = {
    "extractive": lambda _: Extractive(),
    "extractive of one": lambda _: Extractive(sentences=1),
    "anchored": lambda _: Anchored(),
    "anchored by openai": lambda server: Anchored(OpenAISummarizer("m", server.base_url)),
    "none": lambda _: NoSynthesizer(),
    "scripted": lambda _: ScriptedSynthesizer(),
    "openai": lambda server: OpenAISynthesizer("m", server.base_url),
    "openai in words": lambda server: OpenAISynthesizer("m", server.base_url, structured=False),
}

MARKDOWN = """# Storage

The ledger keeps one row for each artifact that was ever indexed. It says what each stage last made of the artifact.
A crash therefore leaves work to do again, and never work that looks done.

```python
print("The code of an example is never taken for a sentence of the text.")
```

| a table | is not prose |
| --- | --- |

- Items of a list are prose when they are sentences of some length.

Dr. Smith measured 3.5 seconds for a ledger of 10,000 artifacts on an ordinary machine.
"""


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module", params=EVERY)
def synthesizer(request: pytest.FixtureRequest, server: OpenAIServer) -> Synthesizer:
    return EVERY[request.param](server)


@settings(max_examples=20)
@given(text=st.text(max_size=300))
def test_the_same_text_gives_the_same_synopsis(synthesizer: Synthesizer, text: str) -> None:
    assert result(synthesizer, text) == result(synthesizer, text)


def result(synthesizer: Synthesizer, text: str) -> str:
    """Return the synopsis or, of a text such as "NULL" that the server repeats, why it is refused."""
    try:
        return synthesizer.synthesize(text, {})
    except SynthesisError as error:
        return str(error)


def test_its_id_is_the_same_in_another_object(synthesizer: Synthesizer, server: OpenAIServer) -> None:
    assert isinstance(synthesizer.id, str)
    assert [make(server).id for make in EVERY.values()].count(synthesizer.id) == 1


@pytest.mark.parametrize("name", ["openai", "openai in words"])
def test_several_at_once_give_what_each_alone_gives(name: str, server: OpenAIServer) -> None:
    synthesizer = EVERY[name](server)
    assert isinstance(synthesizer, ConcurrentSynthesizer)
    texts = [MARKDOWN, "", "A short text.", MARKDOWN[:40]]

    together = dict(synthesizer.synthesize_all([SynthesizerInput(str(i), text) for i, text in enumerate(texts)]))

    assert {i: s.text for i, s in together.items()} == {
        i: synthesizer.synthesize(text, {}) for i, text in enumerate(texts)
    }


def test_an_extractive_synopsis_is_whole_sentences_in_the_order_of_the_text() -> None:
    synopsis = Extractive(sentences=2).synthesize(MARKDOWN, {"media_type": "text/markdown"})

    sentences = sentences_of(MARKDOWN, "text/markdown")
    taken = [sentence for sentence in sentences if sentence in synopsis]
    assert len(taken) == 2
    assert synopsis == " ".join(taken)


def test_code_tables_and_headings_are_no_sentences() -> None:
    sentences = sentences_of(MARKDOWN, "text/markdown")

    assert "Dr. Smith measured 3.5 seconds for a ledger of 10,000 artifacts on an ordinary machine." in sentences
    assert not [s for s in sentences if "print" in s or "|" in s or s.startswith("#")]


@pytest.mark.parametrize("text", ["", "   ", "# Only a heading", "short.", "the of and. " * 5])
def test_nothing_to_say_is_nothing_said(text: str) -> None:
    assert Extractive().synthesize(text, {"media_type": "text/markdown"}) == ""


def test_a_parameter_is_part_of_the_id() -> None:
    assert Extractive(sentences=2).id != Extractive(sentences=3).id


@given(
    st.lists(st.text("abc ABC.é", max_size=40) | st.sampled_from(["the of", "a token expires", "A Token"]), max_size=8)
)
def test_centrality_agrees_with_scikit_learn(sentences: list[str]) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer  # takes seconds

    try:
        vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit_transform(sentences).toarray()
        expected = vectors @ vectors.mean(axis=0) / np.linalg.norm(vectors.mean(axis=0))
    except ValueError:  # only stop words
        expected = np.zeros(len(sentences))

    np.testing.assert_allclose(centrality(sentences), expected, atol=1e-11)
