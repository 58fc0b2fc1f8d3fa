"""What every synthesizer keeps; and that the extractive one takes whole sentences of the text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import Synthesizer
from findingaid.synthesis.extractive import Extractive, sentences_of
from findingaid.synthesis.none import NoSynthesizer
from findingaid.testing import ScriptedSynthesizer

EVERY: list[Synthesizer] = [Extractive(), Extractive(sentences=1), NoSynthesizer(), ScriptedSynthesizer()]

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


@pytest.mark.parametrize("synthesizer", EVERY, ids=repr)
@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=300))
def test_the_same_text_gives_the_same_synopsis(synthesizer: Synthesizer, text: str) -> None:
    assert synthesizer.synthesize(text, {}) == synthesizer.synthesize(text, {})
    assert isinstance(synthesizer.id, str)


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
