"""The parts of the benchmarks that figures of the documentation rest on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.beir import index_set, load_set
from benchmarks.figures import write_table
from benchmarks.verifiers import evaluate_verifier
from findingaid.metrics import evaluate_search
from findingaid.query.answers.verification import VERIFIERS
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import CountingEmbedder

DOCUMENTS = [
    {"_id": "d1", "title": "Ledgers", "text": "A ledger records the loans of the archive.", "parent": "office"},
    {"_id": "d2", "title": "Boxes", "text": "A box is kept in the cold store room.", "parent": "store"},
    {"_id": "d3", "title": "", "text": "Letters of the lighthouse keeper, in a box.", "parent": "store/left"},
]
QUERIES = [
    {"_id": "q1", "text": "ledger loans", "kind": "fact", "gold_sentences": ["A ledger records the loans."]},
    {"_id": "q2", "text": "box", "group": "store"},
    {"_id": "q3", "text": "box", "group": "office"},
    {"_id": "q4", "text": "kubernetes", "answerable": False},
    {"_id": "unjudged", "text": "who"},
]
QRELS = ["query-id\tcorpus-id\tscore", "q1\td1\t2", "q1\td2\t0", "q2\td3\t1", "q3\td1\t1"]


def write_lines(path: Path, values: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


@pytest.mark.parametrize("qrels", ["qrels/test.tsv", "qrels/dev.tsv", "qrels.tsv"])
def test_a_set_in_beirs_layout_is_indexed_and_measured(tmp_path: Path, qrels: str) -> None:
    folder = tmp_path / "archive-2"
    (folder / "qrels").mkdir(parents=True)
    write_lines(folder / "corpus.jsonl", DOCUMENTS)
    write_lines(folder / "queries.jsonl", QUERIES)
    (folder / qrels).write_text("\n".join(QRELS))

    given = load_set(folder)
    embedder = CountingEmbedder()
    for _ in range(2):
        aid = index_set(given, tmp_path / "kept", embedder, WholeText())
    found = evaluate_search(aid, given.cases.expecting(), asked={"mode": "lexical"})

    assert [case.answerable for case in given.cases.cases] == [True, True, True, False]
    assert given.cases.cases[0].gold_sentences == ("A ledger records the loans.",)
    assert [sorted(ranking.artifacts) for ranking in found.rankings] == [
        ["archive_2/d1"], ["archive_2/d2", "archive_2/d3"], [],
    ]  # fmt: skip
    assert found.scores["success@5"].tolist() == [1, 1, 0]
    assert embedder.seen.count("Ledgers\n\nA ledger records the loans of the archive.") == 1


def test_a_verifier_is_measured_beside_what_needs_none() -> None:
    hours = "Auth tokens expire after one hour of use."
    others = ["Auth signs every token with a rotating key.", "The ledger keeps one row an artifact."]
    claims = [
        {"claim": "Tokens expire after one hour.", "evidence": [hours], "label": "supported"},
        {"claim": "Tokens expire after two days.", "evidence": [hours], "label": "not_supported"},
        {"claim": "The ledger keeps one row.", "evidence": others, "label": "supported"},
    ]

    found = evaluate_verifier(VERIFIERS.create({"kind": "lexical"}, "verifier"), claims)

    assert [round(score.value, 3) for score in found.scores.values()][:4] == [1, 1, 1, 0.667]


def test_a_table_replaces_the_one_before_and_stands_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- rows -->\n\nold\n\n<!-- end of rows -->\n\nBehind.\n")

    write_table("rows", ["| a |", "| - |"], page)

    assert page.read_text() == "Before.\n\n<!-- rows -->\n\n| a |\n| - |\n\n<!-- end of rows -->\n\nBehind.\n"
    with pytest.raises(ValueError, match="substring not found"):
        write_table("columns", ["| b |"], page)
    assert "| b |" not in page.read_text()
