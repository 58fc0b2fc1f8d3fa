"""Data sets in BEIR's layout: corpus.jsonl, queries.jsonl, and qrels/test.tsv, another qrels/*.tsv or qrels.tsv.

Beside BEIR's fields, a query may have a `kind`, a known `answer`, `gold_sentences`, and `"answerable": false` if no
document answers it. A query with a `group` searches only documents whose `parent` is the same, or is below it.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from findingaid import Corpus, FindingAid
from findingaid.corpus import Claiming
from findingaid.metrics import Case, Cases
from findingaid.protocols import Embedder
from findingaid.sources.records import Records
from findingaid.store import Store
from findingaid.store.sql import any_of, equals, quoted

TEXTS = ("title", "text")
"""Fields of a document that are indexed, joined by a blank line."""


@dataclass(frozen=True)
class BeirSet:
    """Documents, each with `_id`, and the cases about them. They are indexed as the corpus `corpus`."""

    corpus: str
    folder: Path
    documents: Sequence[Mapping[str, Any]]
    cases: Cases


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def load_set(folder: Path) -> BeirSet:
    """Load a set. Queries without a relevant document are left out, except those that are not answerable."""
    corpus = folder.resolve().name.replace("-", "_")
    grades = _qrels(next(chain(*map(folder.glob, ("qrels/test.tsv", "qrels/*.tsv", "qrels.tsv")))))
    cases = [
        _case(corpus, query, grades.get(str(query["_id"]), {}))
        for query in read_lines(folder / "queries.jsonl")
        if str(query["_id"]) in grades or query.get("answerable") is False
    ]
    documents = [{k: v for k, v in d.items() if v not in ("", None, {})} for d in read_lines(folder / "corpus.jsonl")]
    return BeirSet(corpus, folder, documents, Cases(folder.resolve().name, cases))


def _qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return query -> document -> grade, without grades below 1."""
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        query, document, grade = line.split("\t")
        if grade.strip() != "score" and int(grade) > 0:
            grades[query][document] = int(grade)
    return grades


def _case(corpus: str, query: Mapping[str, Any], grades: Mapping[str, int]) -> Case:
    group = query.get("group")
    return Case(
        str(query["_id"]),
        query["text"],
        {f"{corpus}/{document}": grade for document, grade in grades.items()},
        str(query.get("kind") or ""),
        where=any_of(equals("parent", group), f"starts_with(parent, {quoted(group + '/')})") if group else None,
        answer=query.get("answer") or "",
        gold_sentences=tuple(query.get("gold_sentences") or ()),
        answerable=bool(grades),
    )


def index_set(
    given: BeirSet, folder: Path, embedder: Embedder, strategy: Any, claims: Claiming | None = None
) -> FindingAid:
    """Index a set into a store of its own. A later call with the same arguments embeds nothing."""
    fields = dict.fromkeys(name for document in given.documents for name in document)
    texts = tuple(name for name in TEXTS if name in fields)
    source = Records(given.documents, "_id", texts, tuple(name for name in fields if name not in {"_id", "text"}))
    corpus = Corpus(given.corpus, source, strategy, claims=claims)
    aid = FindingAid(Store(str(folder / "index")), embedder, {given.corpus: corpus}, evaluations=folder)
    for problem in aid.index().problems():
        print(problem, file=sys.stderr)
    return aid.remembering()
