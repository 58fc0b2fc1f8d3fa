"""Workers that build the batches of a run, and executors that start them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Protocol

from findingaid.indexing.indexer import Indexer
from findingaid.indexing.options import BuildOptions
from findingaid.indexing.plan import LARGE_BATCH_ARTIFACTS, split
from findingaid.model import Failure, Listing, Stage
from findingaid.reports import BatchReport

TRIES = 2
"""Attempts to build a batch: after a killed worker or an unavailable store, the next one often succeeds."""

Batch = Sequence[Listing]


class Workers(Protocol):
    """Workers of one run."""

    def build(
        self, indexer: Indexer, batches: Iterable[Batch], options: BuildOptions
    ) -> Iterator[tuple[Batch, BatchReport]]:
        """Build batches of the indexer's corpus; yield each batch with its report as soon as it is written."""


class Executor(Protocol):
    """Starts the workers of a run."""

    def workers(self, run: str) -> AbstractContextManager[Workers]:
        """Return the workers of the run of this name, which end with the context."""


class InProcess:
    """Builds batches in this process, each of them while the one before is written."""

    def build(
        self, indexer: Indexer, batches: Iterable[Batch], options: BuildOptions
    ) -> Iterator[tuple[Batch, BatchReport]]:
        parts = (split(batch) if len(batch) > LARGE_BATCH_ARTIFACTS else [batch] for batch in batches)
        yield from indexer.build_each(chain.from_iterable(parts), options)


def lost_batch(batch: Batch, why: str) -> BatchReport:
    """Return a report that names every artifact of the batch as lost; the rest of the run can then be published."""
    message = f"its batch failed {TRIES} times, {why}"
    return BatchReport(failed=[Failure(x.artifact_id, Stage.ARTIFACTS.value, "lost", message) for x in batch])
