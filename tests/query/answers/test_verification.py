"""Verifiers: which sentences pass, and what a failing one says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from findingaid import ConfigError, ModelError
from findingaid.protocols import Verifier
from findingaid.query.answers.verification import (
    VERIFIERS,
    CrossEncoderVerifier,
    LexicalVerifier,
    OpenAIVerifier,
    find_objection,
)
from findingaid.testing import OpenAIServer
from findingaid.text.analyzer import Lexical
from tests.conftest import Cli

LONG = [
    "The library opened in 1921.",
    "It lends tools to members.",
    "A late tool costs one euro.",
    "Members pay ten euro.",
    "The hall has a roof of glass.",
]


def test_words_scattered_over_long_evidence_do_not_support_a_sentence() -> None:
    verifier = LexicalVerifier()

    assert verifier.objection("A late tool costs a member one euro.", LONG) == ""
    assert verifier.objection("Members opened yearly glass tools, a euro.", LONG)
    assert verifier.objection("The library opened in 1922.", LONG) == "its evidence does not contain 1922"


def test_a_verifier_reads_words_in_the_language_of_the_index() -> None:
    evidence = ["der Häuser Stadt"]

    assert LexicalVerifier(lexical=Lexical("German")).objection("Hauses Stadt", evidence) == ""
    assert LexicalVerifier().objection("Hauses Stadt", evidence) == "its evidence does not support it"


def test_a_judge_decides_and_its_reason_is_told(server: OpenAIServer) -> None:
    judge = OpenAIVerifier(model="judge", base_url=server.base_url, api_key="k", retries=0)
    server.answer = lambda _: {"supported": False, "reason": "the evidence names\nno price"}

    assert judge.objection("It costs one euro.", ["It is lent."]) == "judge: the evidence names no price"
    assert "It is lent." in server.completions[0].content
    server.answer = lambda _: {"supported": True, "reason": ""}
    assert judge.objection("It costs one euro.", ["It costs one euro."]) == ""


class Rude:
    """Verifier that does not return a text, or raises."""

    model = "rude"

    def __init__(self, raises: bool) -> None:
        self.raises = raises

    def objection(self, sentence: str, evidence: Any) -> Any:
        if self.raises:
            raise RuntimeError("no mood")
        return True


@pytest.mark.parametrize(("raises", "said"), [(False, "returned True"), (True, "no mood")])
def test_a_verifier_that_fails_is_a_model_error(raises: bool, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        find_objection(Rude(raises), "It is so.", ["It is so."])
    assert find_objection(Rude(raises), "It is so.", []) == "cites none of the evidence that it was given"


def test_verifiers_are_configured_by_kind(cli: Cli) -> None:
    assert VERIFIERS.known() == ["cross-encoder", "lexical", "openai"]
    assert isinstance(VERIFIERS.create({"kind": "lexical", "at_least": 0.9}, "verifier"), Verifier)
    with pytest.raises(ConfigError, match=r"verifier\.at_least"):
        VERIFIERS.create({"kind": "lexical", "at_least": 2}, "verifier")
    cli.settings["verifier"] = {"kind": "nli"}
    assert "verifier.kind: unknown verifier 'nli'" in cli.run("status").output


def nli(folder: Path, labels: list[str]) -> str:
    """Save a real cross-encoder of random weights with these classes."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "library", "lends", "tools"]
    (folder / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64, num_labels=len(labels), id2label=dict(enumerate(labels)),
        label2id={label: place for place, label in enumerate(labels)},
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    CrossEncoder(str(folder), max_length=64).save_pretrained(str(folder / "saved"))
    return str(folder / "saved")


def test_a_cross_encoder_judges_by_the_probability_of_entailment(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    model = nli(tmp_path / "nli", ["contradiction", "entailment", "neutral"])
    pair = ("the library lends tools", "the library lends")
    scores = CrossEncoder(model).predict([pair], activation_fn=lambda given: given)[0]
    probability = math.exp(scores[1]) / sum(map(math.exp, scores))

    above = CrossEncoderVerifier(model, at_least=probability + 0.001)
    below = CrossEncoderVerifier(model, at_least=probability - 0.001)

    assert below.objection(pair[1], [pair[0]]) == ""
    assert above.objection(pair[1], [pair[0]]).endswith(f"entailed with a probability of {probability:.2f}")
    with pytest.raises(ModelError, match="choose a model with a class entailment"):
        CrossEncoderVerifier(nli(tmp_path / "other", ["good", "bad", "fair"])).objection("the library", ["the library"])
    with pytest.raises(ModelError, match=r"verifier\.model: .* cannot be loaded"):
        CrossEncoderVerifier(str(tmp_path / "none")).objection("the library", ["the library"])
