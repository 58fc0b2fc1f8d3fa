"""Uncommitted fragments: files with rows of a table that no version of the table refers to yet.

A process that builds a batch writes its rows to such files, and one commit takes the rows of many batches. Files that
are never committed, because their process was killed, are removed by a purge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

if TYPE_CHECKING:
    import lance

Column = tuple[str, int, str]
"""Name, id and type of a column of a table. Lance's files refer to columns by their ids."""


@dataclass(frozen=True, slots=True)
class Fragments:
    """Uncommitted fragments of one table, small and picklable.

    `files` has Lance's metadata of each fragment as JSON. `columns` are the columns of the table that the files have.
    """

    files: tuple[str, ...] = ()
    columns: frozenset[Column] = frozenset()

    @classmethod
    def of(
        cls, fragments: Iterable[lance.FragmentMetadata], dataset: lance.LanceDataset, columns: Iterable[str]
    ) -> Self:
        """Describe fragments that were just written for a table with these columns."""
        names = set(columns)
        files = tuple(json.dumps(fragment.to_json()) for fragment in fragments)
        return cls(files, frozenset(column for column in _columns(dataset) if column[0] in names))

    def metadata(self) -> list[lance.FragmentMetadata]:
        """Return the fragments as Lance commits them."""
        from lance import FragmentMetadata

        return [FragmentMetadata.from_json(text) for text in self.files]

    def fit(self, dataset: lance.LanceDataset) -> bool:
        """Check whether the table still has the columns with which the files were written."""
        return self.columns <= _columns(dataset)

    def read(self, dataset: lance.LanceDataset, options: Mapping[str, str]) -> pa.Table:
        """Read the rows back from the files."""
        from lance.file import LanceFileReader

        paths = [f"{dataset.uri}/data/{file.path}" for fragment in self.metadata() for file in fragment.files]
        return pa.concat_tables(
            LanceFileReader(path, storage_options=dict(options) or None).read_all().to_table() for path in paths
        )


NO_FRAGMENTS = Fragments()


def _columns(dataset: lance.LanceDataset) -> frozenset[Column]:
    return frozenset(
        (field.name, lance_field.id(), str(field.type))
        for field, lance_field in zip(dataset.schema, dataset.lance_schema.fields(), strict=True)
    )
