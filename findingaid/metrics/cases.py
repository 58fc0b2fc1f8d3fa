"""Evaluation cases: a file of questions with known answers."""

from __future__ import annotations

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

CASES_SUFFIXES = {".yaml": "YAML", ".yml": "YAML", ".jsonl": "JSON lines", ".ndjson": "JSON lines"}

ID_DIGITS = 12


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
        raise CasesError(f"{path}: unknown suffix. Known: {', '.join(CASES_SUFFIXES)}")
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


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (path:line, value) for each line of a JSONL file that is not blank."""
    for number, line in enumerate(_read(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{number}", orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise CasesError(f"{path}:{number}: not JSON: {error.msg}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CasesError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from None
