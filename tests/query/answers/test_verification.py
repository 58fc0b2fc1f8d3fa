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


@pytest.mark.parametrize(
    ("stated", "said", "objection"),
    [
        ("It expires after two hours.", "It expires after one hour.", "its evidence does not contain one"),
        ("It expires after fourteen hours.", "It expires after twenty hours.", "its evidence does not contain twenty"),
        ("Die Karte gilt neun Tage.", "Die Karte gilt zwölf Tage.", "its evidence does not contain zwölf"),
        ("The app waits 5 minutes.", "The app waits 5 hours.", "its evidence states 5 minutes"),
        ("The seat costs $5 a month.", "The seat costs €5 a month.", "its evidence states $5 a"),
        ("The seat costs 5 euros.", "The seat costs 5 dollars.", "its evidence states 5 euros"),
        ("A third of all users agree.", "Half of all users agree.", "its evidence does not contain Half"),
        ("The app runs on iOS and Linux.", "The app runs on iOS and macOS.", "its evidence does not contain macOS"),
        ("服务器不存储密码。", "服务器存储密码。", "leaves out a negation of its evidence"),
        ("パスワードを保存します。", "パスワードを保存しません。", "negates its evidence"),
        ("The budget grew by 9 million.", "The budget grew by 9 billion.", "its evidence states 9 million"),
        ("Its rate is 3 percent a year.", "Its rate is 3 days a year.", "its evidence states 3 percent"),
        ("The store has -5 degrees.", "The store has 5 degrees.", "its evidence states -5 degrees"),
        ("All of at least 18 years vote.", "All of at most 18 years vote.", "its evidence states at least 18 years"),
        ("Members pay more than 20 euro.", "Members pay less than 20 euro.", "its evidence states more than 20 euro"),
        (
            "Members pay no more than ten euro.",
            "Members pay more than ten euro.",
            "its evidence states no more than ten euro",
        ),
        ("Some users can log in.", "All users can log in.", "its evidence has “Some” instead of “All”"),
        ("Die Karte läuft nicht ab.", "Die Karte läuft ab.", "leaves out a negation of its evidence"),
        ("Le jeton n'expire pas ici.", "Le jeton expire ici.", "leaves out a negation of its evidence"),
        ("Das Haus ist offen.", "Das Haus ist nicht offen.", "negates its evidence"),
        ("Sie zahlt nur bei Unfall.", "Sie zahlt bei Unfall.", "leaves out “nur” of its evidence"),
    ],
)
def test_a_sentence_that_changes_a_number_a_negation_or_a_limit_is_refused(
    stated: str, said: str, objection: str
) -> None:
    assert LexicalVerifier().objection(said, [stated]) == objection


@pytest.mark.parametrize(
    ("stated", "said", "objection"),
    [
        ("Sign-in by code is enabled by default.", "Sign-in by code is disabled by default.", "“enabled”"),
        ("It encrypts a backup before it sends it.", "It encrypts a backup after it sends it.", "“before”"),
        ("The drug is unsafe for old patients.", "The drug is safe for old patients.", "“unsafe”"),
        ("Free accounts send 500 requests a minute.", "Free accounts send 500 requests an hour.", "“minute”"),
        ("Der Umsatz stieg 2020 um 5 Prozent.", "Der Umsatz sank 2020 um 5 Prozent.", "“stieg”"),
        ("Les jetons expirent après 60 minutes.", "Les jetons expirent après 60 heures.", "“minutes”"),
        ("The store opens at 9 am on Monday.", "The store opens at 9 pm on Monday.", "9 am"),
        ("Admins can delete projects.", "Only admins can delete projects.", "adds “only”"),
        ("Les jetons expirent, sauf ceux de l'application.", "Les jetons expirent.", "“sauf”"),
        ("Solamente los jefes pueden borrar proyectos.", "Los jefes pueden borrar proyectos.", "“solamente”"),
    ],
)
def test_a_sentence_with_another_word_in_the_place_of_one_is_refused(stated: str, said: str, objection: str) -> None:
    assert objection in LexicalVerifier().objection(said, ["The house is old.", stated])


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("Only an administrator revokes tokens of a former user.", "Only an admin revokes tokens of a former user."),
        ("Un jeton expirent après une heure.", "Un jeton expire après une heure."),
        ("Tokens expire after one hour. Sessions end with them.", "After one hour, the tokens expire."),
        ("This expires after 60 minutes of use.", "A token expires after 60 minutes of use."),
        ("The hall of the library is open and bright.", "The hall of the library is bright and open."),
    ],
)
def test_a_sentence_in_other_forms_of_its_words_or_another_order_is_accepted(stated: str, said: str) -> None:
    assert LexicalVerifier().objection(said, [stated]) == ""


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("A token of the new app expires after 14 hours.", "A token of the new app expires after fourteen hours."),
        ("Die Karte gilt vierzehn Tage.", "Die Karte gilt 14 Tage."),
        ("The hall is the oldest of the town.", "The hall is one of the oldest of the town."),
        ("The app waits 5 minutes, the server 5 hours.", "The server waits 5 hours."),
        ("The client of the app waits for five minutes.", "The client of the app has a 5-minute wait."),
        ("All of at least 18 years vote.", "All of 18 years or more vote, of at least 18 years."),
        ("The seat costs €5 a month.", "The seat costs 5 euros a month."),
        ("Up to 20 members vote.", "At most 20 members vote, up to 20."),
        ("Auth tokens expire after one hour of use.", "Tokens expire after one hour."),
    ],
)
def test_a_sentence_that_says_its_numbers_in_other_words_is_accepted(stated: str, said: str) -> None:
    assert LexicalVerifier().objection(said, [stated]) == ""


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
