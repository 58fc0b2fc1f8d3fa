"""Facets: counts of artifacts by corpus, kind of file and folder, to narrow a search."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from findingaid.query.search.reader import Key

VALUES = 50
"""Maximum number of values of a facet; those with the most artifacts are kept."""

SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")


@dataclass(frozen=True, slots=True)
class FacetValue:
    """Value of a facet, and how many artifacts have it."""

    value: str
    artifacts: int


@dataclass(frozen=True, slots=True)
class Facets:
    """Counts of artifacts by facet, most first; `artifacts` counts those that match all filters.

    A facet counts the artifacts that match the filters of the other facets, so that its values can be compared.
    `folders` are those directly in the chosen folder, as a prefix of artifact ids that ends in "/".
    """

    artifacts: int
    corpora: Sequence[FacetValue]
    suffixes: Sequence[FacetValue]
    folders: Sequence[FacetValue]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def count_facets(
    keys: Iterable[Key], corpora: Sequence[str] = (), suffixes: Sequence[str] = (), folder: str = ""
) -> Facets:
    """Count artifacts by facet. Only these corpora and suffixes are chosen, or all; `folder` is a prefix of ids."""
    total = 0
    by_corpus: Counter[str] = Counter()
    by_suffix: Counter[str] = Counter()
    by_folder: Counter[str] = Counter()
    for corpus, artifact_id in keys:
        suffix = suffix_of(artifact_id)
        in_corpora = not corpora or corpus in corpora
        in_suffixes = not suffixes or suffix in suffixes
        in_folder = artifact_id.startswith(folder)
        total += in_corpora and in_suffixes and in_folder
        by_corpus[corpus] += in_suffixes and in_folder
        by_suffix[suffix] += in_corpora and in_folder
        if in_corpora and in_suffixes and in_folder and (name := artifact_id[len(folder) :].partition("/"))[1]:
            by_folder[f"{folder}{name[0]}/"] += 1
    del by_suffix[""]
    return Facets(total, _most_common(by_corpus), _most_common(by_suffix), _most_common(by_folder))


def suffix_of(artifact_id: str) -> str:
    """Return the suffix of a file's name, such as ".md"; "" for none."""
    found = SUFFIX.search(artifact_id)
    return found[0] if found else ""


def _most_common(counted: Counter[str]) -> list[FacetValue]:
    ordered = sorted(counted.items(), key=lambda of: (-of[1], of[0]))
    return [FacetValue(value, many) for value, many in ordered[:VALUES] if many]
