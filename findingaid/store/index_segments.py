"""Indexes by segments. Each segment covers a group of fragments, so that a build needs the memory of one segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance import LanceDataset

SEGMENTED_ROWS = 5_000_000
"""Number of records from which indexes are built by segments. Below, one index is faster to search."""

SEGMENT_ROWS = 1_000_000
"""Maximum rows of a segment. A fragment with more rows has a segment of its own."""

SMALL_SEGMENTS = 6
"""Maximum number of segments with fewer than half of SEGMENT_ROWS. If there are more, they are merged."""


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """Part of an index to build: it covers some fragments of one version of the records."""

    name: str
    version: int
    column: str
    kind: str
    parameters: Mapping[str, Any]
    fragments: Sequence[int]

    def build(self, records: LanceDataset) -> Any:
        """Write the files of the segment; return Lance's metadata of it. No version of the table refers to it yet."""
        return records.create_index_uncommitted(
            self.column, self.kind, self.name, replace=True, fragment_ids=list(self.fragments), **self.parameters
        )


Build = Callable[[Sequence[IndexSegment]], Sequence[Any]]
"""Function that builds segments, here or on workers, and returns Lance's metadata of each."""


def rebuild_index(records: LanceDataset, name: str, column: str, config: Any, build: Build) -> None:
    """Build an index over all fragments, in one commit. Until then the old one is used."""
    _replace(records, name, column, config, sorted(_rows(records)), build)


def extend_index(records: LanceDataset, name: str, column: str, config: Any, build: Build) -> None:
    """Build segments for the fragments that have none, in one commit; merge small segments when there are many.

    Merging builds one segment from the rows of the small ones: vector segments, each trained on its own rows, cannot
    be merged in Lance.
    """
    rows = _rows(records)
    (index,) = (found for found in records.describe_indices() if found.name == name)
    covered = [rows.keys() & segment.fragment_ids for segment in index.segments]
    large = [ids for ids in covered if 2 * sum(rows[i] for i in ids) >= SEGMENT_ROWS]
    kept = covered if len(covered) - len(large) <= SMALL_SEGMENTS else large
    _replace(records, name, column, config, sorted(rows.keys() - set().union(*kept)), build)


def _replace(
    records: LanceDataset, name: str, column: str, config: Any, fragments: Sequence[int], build: Build
) -> None:
    """Build segments over these fragments and commit them. Lance drops the segments that they overlap."""
    kind, parameters = _lance_parameters(config)
    groups = _groups(_rows(records), fragments)
    built = build([IndexSegment(name, records.version, column, kind, parameters, group) for group in groups])
    if built:
        records.commit_existing_index_segments(name, column, list(built))


def _groups(rows: Mapping[int, int], fragments: Sequence[int]) -> list[list[int]]:
    """Group fragments in order, each group with at most SEGMENT_ROWS rows or one fragment."""
    groups: list[list[int]] = []
    room = 0
    for fragment in fragments:
        if rows[fragment] > room or not groups:
            groups.append([])
            room = SEGMENT_ROWS
        groups[-1].append(fragment)
        room -= rows[fragment]
    return groups


def _rows(records: LanceDataset) -> dict[int, int]:
    return {fragment.fragment_id: fragment.count_rows() for fragment in records.get_fragments()}


def _lance_parameters(config: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of an index and its parameters for Lance, from lancedb's configuration."""
    from lancedb.index import FTS

    if isinstance(config, FTS):
        names = ("base_tokenizer", "with_position", "language", "stem", "custom_stop_words")
        return "INVERTED", {name: getattr(config, name) for name in names}
    return "IVF_SQ", {"metric": config.distance_type, "target_partition_size": config.target_partition_size}
