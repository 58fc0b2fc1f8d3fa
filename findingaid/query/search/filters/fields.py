"""Filter fields of each corpus, with their types."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from findingaid.store import schemas
from findingaid.store.fields import columns, type_name
from findingaid.store.sql import one_of

if TYPE_CHECKING:
    from lance import LanceDataset

FILTER_COLUMNS = tuple(name for name in schemas.records(1).names if name not in ("vector", "readers"))
"""Columns that every record has and that a filter can name: not the vector, nor who may read it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A filter field of a corpus: its name, its type, and how many of the corpus's records have it."""

    name: str
    type: str
    records: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def corpus_fields(records: LanceDataset, corpora: Sequence[str]) -> Mapping[str, list[Field]]:
    """Map each of these corpora, or all, to its fields sorted by name; omit fields that none of its records has."""
    names = columns(records.schema)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    within = one_of("corpus", corpora) if corpora else None
    scanner = records.scanner(columns=["corpus", *names], filter=within)
    for batch in scanner.to_batches() if names else ():
        counted = pa.table(batch.columns, names=["corpus", *map(str, range(len(names)))])
        counted = counted.group_by("corpus").aggregate([(str(i), "count") for i in range(len(names))])
        for row in counted.to_pylist():
            counts[row["corpus"]].update({name: row[f"{i}_count"] for i, name in enumerate(names)})
    types = {name: type_name(records.schema.field(name).type) for name in names}
    return {
        corpus: [Field(name, types[name], count) for name, count in sorted(counts[corpus].items()) if count]
        for corpus in corpora or sorted(counts)
    }


def has_field(records: LanceDataset, corpora: Sequence[str], name: str) -> bool:
    """Return whether any record of these corpora, or of all, has a field; stop at the first such record."""
    if name not in columns(records.schema):
        return False
    within = f" AND {one_of('corpus', corpora)}" if corpora else ""
    return bool(records.to_table(columns=["corpus"], filter=f"`{name}` IS NOT NULL{within}", limit=1).num_rows)
