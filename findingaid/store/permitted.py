"""Tables as one caller sees them: whatever reads one for a caller gets no row that the caller may not read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.errors import StoreError
from findingaid.store import schemas
from findingaid.store.sql import both, one_of

if TYPE_CHECKING:
    import lance

READERS = schemas.READERS.name

OF_ARTIFACTS = frozenset({"summaries", "node_events"})
"""Tables without a column of readers, whose rows may be read by those who may read their artifacts."""

WHOLE = frozenset({"decisions"})
"""Tables that every caller reads whole, since they take effect on what may be read; see `Eligibility.shown`."""

KEY = ("corpus", "artifact_id")

Keep = Callable[[pa.Table], pa.Table]
"""Function from rows with the columns KEY to those among them that the caller may read."""


class Permitted:
    """The rows of one version of a table that a caller may read, with those methods of a LanceDataset that readers use.

    `readable` are the texts in the column of readers that include the caller, () for none and None for all. `keep`
    chooses among rows by their artifacts, and rows that match `without` are left out. `identity` is the id of the
    version. What is not a method here cannot be done for a caller, such as any write.
    """

    def __init__(
        self,
        dataset: lance.LanceDataset,
        identity: str,
        readable: Sequence[str] | None = None,
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
        if self._keep is None:
            return self._dataset.to_table(columns=wanted, filter=self._and(filter), **how)
        limit = how.pop("limit", None)
        found = self._keep(self._dataset.to_table(columns=[*dict.fromkeys([*wanted, *KEY])], filter=filter, **how))
        return found.drop_columns([name for name in KEY if name not in wanted]).slice(0, limit)

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
        if self._readable is not None and not set(self._readable).issuperset(found[READERS].unique().to_pylist()):
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
        readable = None if self._readable is None else one_of(READERS, self._readable) if self._readable else "false"
        return both(readable, self._without, condition) or None


class _Scan:
    def __init__(self, table: Permitted, columns: Sequence[str], condition: str | None) -> None:
        self._table, self._columns, self._condition = table, columns, condition

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_table(self._columns, self._condition).to_batches()


def among(rows: pa.Table, readable: pa.Table) -> pa.Table:
    """Return those of the rows whose corpus and artifact are in another table."""
    there = set(zip(readable["corpus"].to_pylist(), readable["artifact_id"].to_pylist(), strict=True))
    keys = zip(rows["corpus"].to_pylist(), rows["artifact_id"].to_pylist(), strict=True)
    return rows.filter(pa.array([key in there for key in keys], pa.bool_()))


def said_readers(dataset: lance.LanceDataset) -> list[str]:
    """Return the different texts in the column of readers."""
    found: list[str] = pc.unique(dataset.to_table(columns=[READERS])[READERS]).to_pylist()
    return found
