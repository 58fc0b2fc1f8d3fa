"""Names of artifacts as people type them: ids, and every place that findingaid prints.

Each lookup tries the id as it was given first. Only if there is no such id, `resolve` reads it as a place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from findingaid.corpus import Corpus
from findingaid.errors import NotFoundError, QueryError, brief
from findingaid.query.lookup.artifact import read_titles, refuse_other_version
from findingaid.query.lookup.places import HasLocation
from findingaid.query.search.reader import Key
from findingaid.store.sql import of_artifacts, one_of
from findingaid.text.folding import composed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance import LanceDataset

T = TypeVar("T")

PLACE = re.compile(
    r"""
    (?::(?P<line>\d+)(?::\d+)?)?                                  # :LINE, or :LINE:COLUMN
    (?:(?:(?<!\s)|\s+)\[(?P<start>\d+):(?P<end>\d+)\](?:@(?P<version>[0-9a-f]{8,64}))?        # [S:E], or [S:E]@VERSION
    | \s+(?P<s>\d+):(?P<e>\d+) | \s+[a-z_]+\s\d+)?                               # S:E or KIND NUMBER
    \s*
    """,
    re.VERBOSE,
)
"""Place behind a name as findingaid prints it, in hits, citations and evidence; or nothing.

The space before a bracket is not of the name, which may end with one itself.
"""

PLACE_CHARS = 200
"""Most characters of a place."""

LONGEST_NAME = 5_000
"""Most characters of a name that is looked for as a file, or compared with others."""

NAMES_KEPT = 16
"""Names that are kept in their normal form while they are compared with those of all artifacts."""

ALIKE = 0.7
"""Least likeness of a name that an error suggests, from 0 to 1, see `difflib`."""

SUGGESTED = 3
"""Most names that an error suggests."""

MOST_COMPARED = 20_000
"""Most artifacts whose names are compared letter by letter, for suggestions."""


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """Name of an artifact with the place in it, as far as one was given."""

    name: str
    line: int | None = None
    span: tuple[int, int] | None = None
    version: str | None = None
    """Version of the artifact in which the span is, or the beginning of it."""


def possible_places(text: str) -> Iterator[NamedPlace]:
    """Yield what a text may name, the longest name first, since a name may end as a place does: `talk 10:30`."""
    for end in range(len(text), max(0, len(text) - PLACE_CHARS), -1):
        if found := PLACE.fullmatch(text, end):
            start, stop = found["start"] or found["s"], found["end"] or found["e"]
            span = (int(start), int(stop)) if start else None
            yield NamedPlace(text[:end], int(found["line"]) if found["line"] else None, span, found["version"])


def _is_name(name: str, key: Key, _: str) -> bool:
    return name in (key[1], "/".join(key))


def _is_composed(name: str, key: Key, known: str) -> bool:
    return _composed_name(name) in (known, f"{key[0]}/{known}")


def _is_end(name: str, _: Key, known: str) -> bool:
    return bool(name.strip()) and f"/{known}".endswith(_ending(name))


@lru_cache(NAMES_KEPT)
def _composed_name(name: str) -> str:
    return composed(name.strip())


@lru_cache(NAMES_KEPT)
def _ending(name: str) -> str:
    return "/" + os.path.normpath(_composed_name(name))


MATCHES = (_is_name, _is_composed, _is_end)
"""Functions that compare a name with a key and the composed id of it, the strictest first."""


def place_in(wanted: str, key: Key) -> NamedPlace:
    """Return the place in an artifact that a name of it gives; see `resolve`."""
    known = composed(key[1])
    places = (place for fits in MATCHES for place in possible_places(wanted) if fits(place.name, key, known))
    return next(places, NamedPlace(wanted))


def resolve(records: LanceDataset, wanted: str, corpora: Sequence[str]) -> Key | None:
    """Return the published artifact of these corpora that a place or a part of its name denotes; None if there is none.

    An id and `CORPUS/ID` go before the end of an id from a `/` on, and a longer name before a shorter one with a place.
    Composed and decomposed names are the same, unless one of them is an id as it is written. Raises QueryError if
    several artifacts have the name.
    """
    names = {key: composed(key[1]) for key in read_keys(records, corpora)}
    for fits, place in product(MATCHES, list(possible_places(wanted))):
        if len(found := [key for key, known in names.items() if fits(place.name, key, known)]) > 1:
            raise QueryError(f"{brief(wanted)} may be {_listed(found)}: {_remedy(found, place.name)}")
        if found:
            return found[0]
    return None


def suggest(records: LanceDataset, wanted: str, corpora: Sequence[str]) -> str:
    """Return the artifacts of these corpora with a name like the wanted one, as the end of an error; "" if none."""
    shortest = list(possible_places(wanted))[-1:] or [NamedPlace(wanted)]
    name = composed(os.path.basename(shortest[0].name)).casefold()
    if not name or len(name) > LONGEST_NAME:
        return ""
    keys = read_keys(records, corpora)
    ends = {key: composed(os.path.basename(key[1])).casefold() for key in keys}
    holding = [key for key, end in ends.items() if len(name) > 2 and name in end]
    near = [] if holding or len(keys) > MOST_COMPARED else get_close_matches(name, set(ends.values()), SUGGESTED, ALIKE)
    fits = holding or sorted((key for key in keys if ends[key] in near), key=lambda key: near.index(ends[key]))
    return f"; did you mean {_listed(fits)}?" if fits else ""


def resolve_and_read(
    records: LanceDataset,
    wanted: str,
    corpora: Sequence[str],
    read: Callable[[str, Sequence[str]], T],
    is_id: bool = False,
) -> T:
    """Return what `read` finds for an id in these corpora, else for the artifact that the id denotes as a place.

    Unless it `is_id`, as when its corpus was given beside it, it may also be the `CORPUS/ID` that findingaid prints.
    Raises the NotFoundError of `read`, with suggestions, and QueryError if the id denotes two artifacts.
    """
    try:
        found = read(wanted, corpora)
    except NotFoundError as error:
        if (key := resolve(records, wanted, corpora)) is None:
            raise NotFoundError(f"{error}{suggest(records, wanted, corpora)}") from None
        _require_version(records, key, place_in(wanted, key).version)
        return read(key[1], [key[0]])
    if not is_id:
        _refuse_two(records, wanted, corpora)
    return found


def _require_version(records: LanceDataset, key: Key, version: str | None) -> None:
    """Raise NotFoundError if a printed place is in another version of the artifact than the published one."""
    if version is not None:
        found = records.to_table(columns=["artifact_version"], filter=of_artifacts([key]), limit=1)
        refuse_other_version(key, found["artifact_version"][0].as_py(), version)


def _refuse_two(records: LanceDataset, wanted: str, corpora: Sequence[str]) -> None:
    """Raise QueryError if a name is the id of one artifact and the `CORPUS/ID` of another."""
    corpus, _, artifact_id = wanted.partition("/")
    if artifact_id and corpus in corpora:
        read = partial(read_titles, records)
        ids, printed = read([(name, wanted) for name in corpora]), read([(corpus, artifact_id)])
        if ids and printed:
            fits = [*printed, *ids]
            raise QueryError(f"{brief(wanted)} may be {_listed(fits)}: {_remedy(fits, wanted)}")


def _remedy(fits: Sequence[Key], name: str) -> str:
    """Return how to name one of several artifacts, if the name itself is the `CORPUS/ID` of one of them."""
    return "give its id and its corpus" if name in map("/".join, fits) else "name one of them"


def read_keys(records: LanceDataset, corpora: Sequence[str]) -> list[Key]:
    """Return the keys of the published artifacts of these corpora, in order."""
    found = records.to_table(columns=["corpus", "artifact_id"], filter=one_of("corpus", corpora))
    once = found.group_by(["corpus", "artifact_id"]).aggregate([])
    return sorted(zip(once["corpus"].to_pylist(), once["artifact_id"].to_pylist(), strict=True))


def artifact_of_file(corpora: Mapping[str, Corpus], text: str) -> str:
    """Return `CORPUS/ID` and the place for the path of a file below the root of a corpus; else the text itself.

    Of several corpora it is that with the deepest root.
    """
    if len(text) > LONGEST_NAME or "\0" in text:
        return text
    name = next((place.name for place in possible_places(text) if os.path.isfile(place.name)), None)
    if name is None:
        return text
    path = Path(os.path.abspath(name))
    roots = [
        (root, corpus.name)
        for corpus in corpora.values()
        if isinstance(corpus.source, HasLocation)
        for root in (Path(corpus.source.place("")), Path(corpus.source.place("")).resolve())
        if path.is_relative_to(root)
    ]
    if not roots:
        return text
    root, corpus_name = max(roots, key=lambda found: len(found[0].parts))
    return f"{corpus_name}/{path.relative_to(root).as_posix()}{text[len(name) :]}"


def _listed(keys: Iterable[Key]) -> str:
    """List some of the keys: "a/x, b/x or 3 others"."""
    names = ["/".join(key) for key in keys]
    shown, more = names[:SUGGESTED], len(names) - SUGGESTED
    last = f"{more:,} other{'s' * (more > 1)}" if more > 0 else shown.pop()
    return f"{', '.join(shown)} or {last}" if shown else last
