"""Tables as one caller sees them: whatever reads one for a caller gets no row that the caller may not read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from findingaid.access import Caller
from findingaid.errors import StoreError
from findingaid.store import schemas
from findingaid.store.sql import both, one_of

if TYPE_CHECKING:
    import lance

READERS = schemas.READERS.name

BY_ARTIFACT = frozenset({"summaries", "node_events"})
"""Tables that are filtered by the artifact of each row, since they have no column of readers."""

WHOLE = frozenset({"decisions"})
"""Tables that every caller reads whole, since they take effect on what may be read; see `Eligibility.shown`."""

KEY = ("corpus", "artifact_id")

LEAST_SHARE = 0.02
"""Share of readable rows from which a ranking is read together with the rows that the caller may not read."""

MARGIN = 2
"""By how many standard deviations of the readable rows among them such a ranking is longer than would do on average."""

Keep = Callable[[pa.Table], pa.Table]
"""Function from rows with the columns KEY to those among them that the caller may read."""


class Readers:
    """Readers of every row of one version of a table: the different texts, and by row id which of them it has."""

    def __init__(self, dataset: lance.LanceDataset, identity: str) -> None:
        self.identity = identity
        rows = dataset.to_table(columns=[READERS], with_row_id=True).sort_by("_rowid").combine_chunks()
        said = rows[READERS].combine_chunks().dictionary_encode()
        self.texts: list[str] = said.dictionary.to_pylist()
        self._rowids, self._texts = rows["_rowid"].to_numpy(), said.indices.to_numpy()

    def readable(self, caller: Caller) -> Readable | None:
        """Return what a caller may read; None if it is everything."""
        allowed = np.array([caller.may_read(said) for said in self.texts], bool)
        if allowed.all():
            return None
        counts = np.bincount(self._texts, minlength=len(self.texts))
        texts = [said for said, may in zip(self.texts, allowed, strict=True) if may]
        return Readable(texts, float(counts[allowed].sum() / counts.sum()), partial(self._among, allowed))

    def _among(self, allowed: Any, rowids: Any) -> Any:
        return allowed[self._texts[np.searchsorted(self._rowids, rowids)]]


@dataclass(frozen=True)
class Readable:
    """What a caller may read of a table: the texts in the column of readers that include the caller.

    `share` of all rows have one of them. `among` says of each row, by the row ids of rows, whether it has.
    """

    texts: Sequence[str] = ()
    share: float = 0
    among: Callable[[Any], Any] | None = None


class Permitted:
    """The rows of one version of a table that a caller may read, with those methods of a LanceDataset that readers use.

    `readable` is None if the caller may read all rows. `keep` chooses among rows by their artifacts, and rows that
    match `without` are left out. `identity` is the id of the version. What is not a method here cannot be done for a
    caller, such as any write.
    """

    def __init__(
        self,
        dataset: lance.LanceDataset,
        identity: str,
        readable: Readable | None = None,
        keep: Keep | None = None,
        without: str | None = None,
    ) -> None:
        self._dataset, self.identity, self._readable, self._keep = dataset, identity, readable, keep
        self._without = f"NOT ({without})" if without else None

    @property
    def limited(self) -> bool:
        """Whether there are rows that the caller may not read."""
        return any(each is not None for each in (self._readable, self._keep, self._without))

    def to_table(self, columns: Sequence[str] | None = None, filter: str | None = None, **how: Any) -> pa.Table:  # noqa: A002  # as in Lance
        """Return rows, see `LanceDataset.to_table`; a search looks among the readable rows only."""
        if how.keys() & {"nearest", "full_text_query"}:
            how["prefilter"] = True
        wanted = self.schema.names if columns is None else list(columns)
        if "full_text_query" in how and (ranked := self._ranked(wanted, filter, **how)) is not None:
            return ranked
        if self._keep is None:
            return self._dataset.to_table(columns=wanted, filter=self._and(filter), **how)
        limit = how.pop("limit", None)
        found = self._keep(self._dataset.to_table(columns=[*dict.fromkeys([*wanted, *KEY])], filter=filter, **how))
        return found.drop_columns([name for name in KEY if name not in wanted]).slice(0, limit)

    def _ranked(
        self, columns: list[str], condition: str | None, *, limit: int, with_row_id: bool = False, **how: Any
    ) -> pa.Table | None:
        """Return the best readable rows of a full-text search, or None if too few of the best rows are readable.

        Otherwise Lance compares the readers of every row with those that include the caller, before each search.
        """
        readable = self._readable
        if readable is None or readable.among is None or readable.share <= LEAST_SHARE or not with_row_id:
            return None
        enough, rest = limit + MARGIN * limit**0.5 + 1, self._rest(condition)
        most = ceil(enough / readable.share)
        found = self._dataset.to_table(columns=columns, filter=rest, limit=most, with_row_id=True, **how)
        kept = found.filter(pa.array(readable.among(found["_rowid"].to_numpy()))).sort_by([("_score", "descending")])
        return kept.slice(0, limit) if len(kept) >= limit or len(found) < most else None

    def count_rows(self, filter: str | None = None) -> int:  # noqa: A002  # as in Lance
        """Return how many readable rows match a condition."""
        if self._keep is not None:
            return int(self.to_table([], filter).num_rows)
        return int(self._dataset.count_rows(self._and(filter)))

    def scanner(self, columns: Sequence[str], filter: str | None = None) -> _Scan:  # noqa: A002  # as in Lance
        """Return a scan of the readable rows, which are read in one piece."""
        return _Scan(self, columns, filter)

    def take(self, places: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return rows by their places in the table. Raises StoreError for one that the caller may not read."""
        found = self._dataset.take(list(places), columns=[*dict.fromkeys([*columns, READERS])])
        if self._readable is not None and not set(self._readable.texts).issuperset(found[READERS].unique().to_pylist()):
            raise StoreError("a record was asked for that the caller may not read")
        return found.select(list(columns))

    @property
    def schema(self) -> pa.Schema:
        return self._dataset.schema

    @property
    def version(self) -> int:
        return int(self._dataset.version)

    @property
    def uri(self) -> str:
        return str(self._dataset.uri)

    @property
    def tags(self) -> Any:
        return self._dataset.tags

    def config(self) -> dict[str, str]:
        """Return the settings of the table, see `LanceDataset.config`."""
        return self._dataset.config()

    def describe_indices(self) -> Any:
        """Return the indexes of the table, see `LanceDataset.describe_indices`."""
        return self._dataset.describe_indices()

    def get_version(self) -> Any:
        """Return the number and the time of the version, see `LanceDataset.get_version`."""
        return self._dataset.get_version()

    def _and(self, condition: str | None) -> str | None:
        if self._readable is None:
            return self._rest(condition)
        return both(one_of(READERS, self._readable.texts) if self._readable.texts else "false", self._rest(condition))

    def _rest(self, condition: str | None) -> str | None:
        return both(self._without, condition) or None


class _Scan:
    def __init__(self, table: Permitted, columns: Sequence[str], condition: str | None) -> None:
        self._table, self._columns, self._condition = table, columns, condition

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_table(self._columns, self._condition).to_batches()


def among(rows: pa.Table, readable: pa.Table) -> pa.Table:
    """Return the rows of artifacts that have a row in a second table."""
    there = set(zip(readable["corpus"].to_pylist(), readable["artifact_id"].to_pylist(), strict=True))
    keys = zip(rows["corpus"].to_pylist(), rows["artifact_id"].to_pylist(), strict=True)
    return rows.filter(pa.array([key in there for key in keys], pa.bool_()))
