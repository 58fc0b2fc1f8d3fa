"""Evaluation cases, questions with known answers: a file of cases over corpora, or a data set in BEIR's layout."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import yaml
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from findingaid.errors import CasesError
from findingaid.identity.hashes import content_hash
from findingaid.registry import one_line
from findingaid.store.sql import any_of, equals, quoted

CASES_SUFFIXES = {".yaml": "YAML", ".yml": "YAML", ".jsonl": "JSON lines", ".ndjson": "JSON lines"}

ID_DIGITS = 12

TEXTS = ("title", "text")
"""Document fields of a data set that are indexed, joined by a blank line."""

GROUP, PARENT = "group", "parent"
"""A query with the first field is put only to documents whose second field has the same value."""


@dataclass(frozen=True, slots=True)
class Case:
    """Question, and the artifacts it is expected to find: "corpus/artifact" -> relevance grade, 1 or more.

    `passage` is a text that answers the question, `where` a filter of its search, `place` the file and line it was read
    from, and `answer` a known answer. `gold_sentences` are the sentences of the expected artifacts that the answer
    rests on. A question that is not `answerable` expects no artifact; only evaluations of answers ask it.
    """

    id: str
    query: str
    expected: Mapping[str, int]
    kind: str = ""
    passage: str = ""
    where: str | None = None
    place: str = ""
    answer: str = ""
    gold_sentences: tuple[str, ...] = ()
    answerable: bool = True


@dataclass(frozen=True)
class Cases:
    """Named cases; `generated_by` is the id of the model that wrote them, "" if none did."""

    name: str
    cases: Sequence[Case]
    generated_by: str = ""

    def expecting(self) -> Cases:
        """Return the cases that expect an artifact."""
        return Cases(self.name, [case for case in self.cases if case.answerable], self.generated_by)

    def of_corpus(self, corpus: str) -> Cases:
        """Return the cases that expect an artifact of one corpus."""
        kept = [case for case in self.cases if any(i.startswith(f"{corpus}/") for i in case.expected)]
        return Cases(self.name, kept, self.generated_by)


@dataclass(frozen=True)
class BeirSet:
    """Data set of documents, each with `_id`, and the cases about them. It is indexed under the name `corpus`."""

    corpus: str
    folder: Path
    documents: Sequence[Mapping[str, Any]]
    cases: Cases

    @property
    def text(self) -> tuple[str, ...]:
        """Fields that are indexed."""
        return tuple(name for name in TEXTS if name in self._fields)

    @property
    def metadata(self) -> tuple[str, ...]:
        """Fields that filters can name."""
        return tuple(name for name in self._fields if name not in {"_id", "text"})

    @property
    def _fields(self) -> dict[str, None]:
        return dict.fromkeys(name for document in self.documents for name in document)


def _expected(given: Any) -> Any:
    """Convert one id or a list of ids to ids with grade 1; leave ids with grades as they are."""
    if isinstance(given, str):
        given = [given]
    return dict.fromkeys(given, 1) if isinstance(given, list) else given


Grades = Annotated[dict[str, Annotated[int, Field(ge=1)]], BeforeValidator(_expected)]


class _Given(BaseModel, extra="forbid"):
    """Case as a file has it; `record` and `span` cite the source of a generated case."""

    query: Annotated[str, Field(pattern=r"\S")]
    expected: Grades = Field(default_factory=dict)
    id: str | int | None = None
    kind: str = ""
    passage: str = ""
    where: str | None = None
    answer: str = ""
    gold_sentences: tuple[str, ...] = ()
    answerable: bool = True
    record: str | None = None
    span: tuple[int, int] | None = None


def load_cases(path: str | Path) -> Cases:
    """Load the cases of a YAML file (a list, or a mapping with a list under `cases`) or of a JSON lines file.

    Raises CasesError, with the line.
    """
    path = Path(path)
    if path.suffix.lower() not in CASES_SUFFIXES:
        raise CasesError(f"{path}: unknown suffix. Known: {', '.join(CASES_SUFFIXES)}, or a folder in BEIR's layout")
    generated_by = ""
    if CASES_SUFFIXES[path.suffix.lower()] == "YAML":
        generated_by, given = _yaml(path)
    else:
        given = list(_lines(path))
    return Cases(path.stem, _unique(_case(place, values) for place, values in given), generated_by)


def _case(place: str, values: Any) -> Case:
    try:
        given = _Given.model_validate(values)
    except ValidationError as error:
        raise CasesError(f"{place}: {one_line(error, '', list(_Given.model_fields))}") from None
    if given.answerable != bool(given.expected):
        found = "has no artifact that it expects" if given.answerable else "is not answerable, but expects artifacts"
        raise CasesError(f"{place}: expected: the case {found}: give `expected`, or `answerable: false`")
    if wrong := next((i for i in given.expected if not all(i.partition("/")[::2])), None):
        raise CasesError(f"{place}: expected: {wrong!r} does not have the form corpus/artifact")
    made = content_hash(given.query, given.where)[:ID_DIGITS]
    name = made if given.id is None else str(given.id)
    return Case(
        name,
        given.query,
        given.expected,
        given.kind,
        given.passage,
        given.where,
        place,
        given.answer,
        given.gold_sentences,
        given.answerable,
    )


def _unique(cases: Iterable[Case]) -> list[Case]:
    found: dict[str, Case] = {}
    for case in cases:
        if (first := found.setdefault(case.id, case)) is not case:
            raise CasesError(f"{case.place}: duplicate case {case.id!r} (first at {first.place})")
    if not found:
        raise CasesError("no cases: give at least one query with the artifacts that it should find")
    return list(found.values())


def _yaml(path: Path) -> tuple[str, list[tuple[str, Any]]]:
    """Return the id of the model that wrote the cases, and each case with its line."""
    text = _read(path)
    try:
        tree: Any = yaml.compose(text, yaml.SafeLoader)
        values = yaml.safe_load(text)
    except RecursionError:
        raise CasesError(f"{path}: not YAML: too deep") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise CasesError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from None
    generated_by = ""
    if isinstance(values, dict):
        if unknown := [key for key in values if key not in {"generated_by", "cases"}]:
            raise CasesError(f"{path}: unknown key {unknown[0]!r}. Known: cases, generated_by")
        generated_by = str(values.get("generated_by") or "")
        tree = next((value for key, value in tree.value if key.value == "cases"), None)
        values = values.get("cases")
    if not isinstance(values, list) or tree is None:
        raise CasesError(f"{path}: expected a list of cases, each with query and expected")
    places = [f"{path}:{node.start_mark.line + 1}" for node in tree.value]
    return generated_by, list(zip(places, values, strict=True))


def load_set(folder: str | Path, split: str | None = None) -> BeirSet:
    """Load a data set in BEIR's layout: corpus.jsonl, queries.jsonl, and qrels/SPLIT.tsv or qrels.tsv.

    Queries for which the qrels name no relevant document are left out, except those that say `"answerable": false`. A
    query's `kind` groups it in reports; answers are compared with its `answer` and `gold_sentences`. Raises CasesError.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CasesError(f"{folder}: no such file or folder")
    documents = _by_id(folder / "corpus.jsonl")
    queries = _by_id(folder / "queries.jsonl")
    name = folder.resolve().name
    corpus = re.sub(r"[^0-9A-Za-z_]", "_", name) or "set"
    grades = _qrels(_qrels_file(folder, split), documents, queries)
    cases = [
        _of_query(corpus, place, values, grades.get(i, {}))
        for i, (place, values) in queries.items()
        if i in grades or values.get("answerable") is False
    ]
    if not grades:
        raise CasesError(f"{folder}: no query has a document that answers it")
    kept = [
        {key: value for key, value in values.items() if value not in ("", None, {})} for _, values in documents.values()
    ]
    return BeirSet(corpus, folder, kept, Cases(name, cases))


def _of_query(corpus: str, place: str, values: Mapping[str, Any], grades: Mapping[str, int]) -> Case:
    query = values.get("text")
    if not isinstance(query, str) or not query.strip():
        raise CasesError(f"{place}: no text: a query must be a text that is not blank")
    where = _within(str(values[GROUP])) if values.get(GROUP) else None
    expected = {f"{corpus}/{document}": grade for document, grade in grades.items()}
    kind, answer = (str(values.get(name) or "") for name in ("kind", "answer"))
    gold = values.get("gold_sentences") or []
    if not isinstance(gold, list) or not all(isinstance(sentence, str) for sentence in gold):
        raise CasesError(f"{place}: gold_sentences: expected a list of texts")
    answerable = bool(expected)
    return Case(str(values["_id"]), query, expected, kind, "", where, place, answer, tuple(gold), answerable)


def _within(group: str) -> str:
    """Return the condition of documents whose parent is a group, or is below it as `group/…`."""
    return any_of(equals(PARENT, group), f"starts_with({PARENT}, {quoted(group + '/')})")


def _by_id(path: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return _id -> (place, values) for the lines of a file."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for place, values in _lines(path):
        if not isinstance(values, dict) or not isinstance(values.get("_id"), str | int) or values["_id"] == "":
            raise CasesError(f"{place}: expected a JSON object with _id")
        key = str(values["_id"])
        if key in found:
            raise CasesError(f"{place}: duplicate _id {key!r} (first at {found[key][0]})")
        found[key] = place, values
    if not found:
        raise CasesError(f"{path}: is empty")
    return found


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (path:line, value) for each line of a JSONL file that is not blank."""
    for number, line in enumerate(_read(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{number}", orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise CasesError(f"{path}:{number}: not JSON: {error.msg}") from None


def _qrels_file(folder: Path, split: str | None) -> Path:
    """Return the qrels file of a split; without `split`, that of `test` or the only one."""
    files = {path.stem: path for path in sorted((folder / "qrels").glob("*.tsv"))}
    if not split and (folder / "qrels.tsv").is_file() and not files:
        return folder / "qrels.tsv"
    chosen = split or ("test" if "test" in files or len(files) != 1 else next(iter(files)))
    if chosen not in files:
        known = f"Known splits: {', '.join(files)}" if files else "There are neither qrels/*.tsv nor qrels.tsv"
        raise CasesError(f"{folder}: no qrels of split {chosen!r}. {known}")
    return files[chosen]


def _qrels(path: Path, documents: Mapping[str, Any], queries: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return query -> document -> grade, without grades below 1."""
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip() or (number == 1 and line.split("\t")[-1].strip() == "score"):
            continue
        query, document, grade = _qrel(f"{path}:{number}", line)
        for what, name, known in (("query", query, queries), ("document", document, documents)):
            if name not in known:
                raise CasesError(f"{path}:{number}: unknown {what} {name!r}")
        if (query, document) in seen:
            raise CasesError(
                f"{path}:{number}: duplicate pair {query!r} and {document!r} (first at line {seen[query, document]})"
            )
        seen[query, document] = number
        if grade > 0:
            grades[query][document] = grade
    return grades


def _qrel(place: str, line: str) -> tuple[str, str, int]:
    cells = [cell.strip() for cell in line.split("\t")]
    try:
        query, document, grade = cells
        return query, document, int(grade)
    except ValueError:
        raise CasesError(f"{place}: expected query-id, corpus-id and a whole number, separated by tabs") from None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CasesError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from None
