"""Pure functions that find stale artifacts, by comparing a source's listings with the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.errors import SourceShrunkError, brief
from findingaid.indexing.retries import NEVER
from findingaid.model import Discovery, Failure, Listing, Skipped, Stage
from findingaid.store.skipped import unchanged
from findingaid.text.folding import composed

BATCH_ARTIFACTS = 512
LARGE_BATCH_ARTIFACTS = 1024
BATCH_BYTES = 64_000_000
"""Limits of a batch. It is held in memory, so its rows and its bytes are both bounded."""

BATCHES = 32
"""Number of batches above which a run makes them larger than BATCH_ARTIFACTS, so that tables get fewer files."""

STEP_ARTIFACTS = 8192
"""Largest number of artifacts that a process of its own takes, as a step of the job does, in several batches."""

COMPARED = ("artifact_id", "stamp", "recipe", "n_artifacts", "updated")
"""Columns of the ledger with which a plan compares what a source lists; `n_artifacts` is 0 if it was never read."""


KEPT = "{} artifacts that are not listed stay, such as {}: what is there cannot be listed"
"""Note on artifacts below a folder or link that cannot be looked into."""

MEANT = "If they are meant to be gone, run again with --allow-loss"

EMPTIED = (
    f"lists nothing, and {{}} artifacts that it had stay, such as {{}}: is it out of reach, or not mounted? {MEANT}"
)
"""Failure of a part of a source that nothing was deleted from."""


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """Work that a run would consider in one corpus.

    `stale` are listings that are new or changed, failed before, were lost, or have new decisions. Reading them may show
    that nothing changed after all. `deleted` are known artifacts that the source no longer has. `lost` names the parts
    whose rows are gone from their table. `skipped` are artifacts that an earlier run skipped and that are unchanged;
    `artifacts` does not count them. `forgotten` are skipped artifacts that the source no longer has, and "" after a
    run that could not list it. `allow_loss`
    accepts that most artifacts are lost. A `partial` plan covers only the artifacts that were named. `notes` are lines
    of the source for the report. `waiting` are artifacts that failed before and are not tried again in this run, see
    `findingaid.indexing.retries`. `listed` is all that the source lists. `recipe_id` is that of the
    recipe by which they are current or stale.
    """

    corpus: str
    artifacts: int
    stale: Sequence[Listing]
    deleted: Sequence[str]
    failures: Sequence[Failure] = ()
    lost: Mapping[str, Collection[str]] = field(default_factory=dict)
    skipped: Sequence[Skipped] = ()
    forgotten: Sequence[str] = ()
    allow_loss: bool = False
    partial: bool = False
    notes: Sequence[str] = ()
    waiting: Sequence[Failure] = ()
    listed: Sequence[Listing] = ()
    recipe_id: str = ""

    def only(self, artifact_ids: Collection[str]) -> CorpusPlan:
        """Return the part of the plan that concerns these artifacts, named in either Unicode form."""
        wanted = set(map(composed, artifact_ids))
        stale = [listing for listing in self.stale if composed(listing.artifact_id) in wanted]
        deleted = [artifact_id for artifact_id in self.deleted if composed(artifact_id) in wanted]
        failures = [failure for failure in self.failures if composed(failure.artifact_id) in wanted]
        lost = {artifact_id: parts for artifact_id, parts in self.lost.items() if composed(artifact_id) in wanted}
        return CorpusPlan(
            self.corpus,
            len(stale) + len(failures),
            stale,
            deleted,
            failures,
            lost,
            allow_loss=self.allow_loss,
            partial=True,
        )

    @property
    def artifact_ids(self) -> set[str]:
        """The artifacts with work to do, and those that cannot be listed as they are."""
        return {x.artifact_id for x in self.stale} | {x.artifact_id for x in self.failures} | {*self.deleted}

    @property
    def writes(self) -> bool:
        """Whether a run of this plan writes to the store, unless all stale artifacts turn out to be current."""
        waiting = any(failure.retry_in != NEVER for failure in self.waiting)
        return bool(self.stale or self.deleted or self.failures or self.lost or self.forgotten or waiting)

    def batches(self) -> Iterator[Sequence[Listing]]:
        """Yield the stale listings in batches."""
        yield from split(self.stale)

    def steps(self) -> Iterator[Sequence[Listing]]:
        """Yield the stale listings in steps for processes of their own: few of them, since each takes time to start."""
        yield from split(self.stale, STEP_ARTIFACTS)

    def removals(self) -> Iterator[Sequence[str]]:
        """Yield the deleted artifacts in batches, each committed at once."""
        most = batch_artifacts(len(self.deleted), STEP_ARTIFACTS)
        for start in range(0, len(self.deleted), most):
            yield self.deleted[start : start + most]


def batch_artifacts(total: int, limit: int = LARGE_BATCH_ARTIFACTS) -> int:
    """Return the largest number of artifacts of a batch in a run of so many."""
    return min(max(BATCH_ARTIFACTS, -(-total // BATCHES)), limit)


def split(listings: Sequence[Listing], limit: int = LARGE_BATCH_ARTIFACTS) -> Iterator[Sequence[Listing]]:
    """Yield listings in batches of at most `limit`, bounded in bytes too."""
    batch: list[Listing] = []
    size, most = 0, batch_artifacts(len(listings), limit)
    for listing in listings:
        if batch and (len(batch) == most or size + listing.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(listing)
        size += listing.size
    if batch:
        yield batch


def plan_corpus(
    corpus: str,
    discovery: Discovery,
    known: pa.Table,
    recipe_id: str,
    lost: Mapping[str, Collection[str]],
    force: bool = False,
    decided: Collection[str] = (),
    skipped: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    waiting: Mapping[str, Failure] = MappingProxyType({}),
    allow_loss: bool = False,
) -> CorpusPlan:
    """Compare a discovery with the columns COMPARED of the ledger; artifacts in `decided` are always stale.

    `skipped` are the (stamp, reason) of artifacts that an earlier run skipped. `waiting` are artifacts that would fail
    as before; `force`, lost rows and new decisions have them tried nevertheless.
    """
    known_ids = known["artifact_id"]
    indexed = {*known_ids.filter(_among(known_ids, skipped)).to_pylist(), *lost}
    still = (
        [] if force else [each for each in unchanged(discovery.listings, skipped) if each.artifact_id not in indexed]
    )
    untried = {} if force else {i: failure for i, failure in waiting.items() if i not in lost and i not in decided}
    passed = {each.artifact_id for each in still} | untried.keys()
    stale = [
        listing
        for listing, is_current in zip(discovery.listings, _current(discovery.listings, known, recipe_id), strict=True)
        if listing.artifact_id not in passed
        and (
            force
            or not is_current
            or not listing.settled
            or listing.artifact_id in lost
            or listing.artifact_id in decided
        )
    ]
    there = {listing.artifact_id for listing in discovery.listings} | {f.artifact_id for f in discovery.failures}
    away = {} if allow_loss else _away(discovery.emptied, known.filter(pc.invert(_among(known_ids, there))))
    emptied = [_emptied(part, ids) for part, ids in away.items()]
    there |= away.keys()
    gone = {*known_ids.filter(pc.invert(_among(known_ids, there))).to_pylist(), *lost} - there
    gone -= {artifact_id for ids in away.values() for artifact_id in ids}
    hidden = tuple(discovery.unknown)
    deleted, forgotten = (
        sorted(i for i in ids if not (hidden and i.startswith(hidden))) for ids in (gone, skipped.keys() - there)
    )
    kept = min(gone - set(deleted), default="")
    return CorpusPlan(
        corpus,
        len(there) - len(still),
        stale,
        deleted,
        [*discovery.failures, *emptied],
        lost,
        still,
        forgotten,
        allow_loss,
        notes=[*discovery.notes, *([KEPT.format(len(gone) - len(deleted), brief(kept))] if kept else [])],
        waiting=list(untried.values()),
        listed=discovery.listings,
        recipe_id=recipe_id,
    )


def _away(emptied: Mapping[str, float], gone: pa.Table) -> dict[str, list[str]]:
    """Map each emptied part of a source to its artifacts that are gone and were indexed after its last change.

    The whole source, "", is left to `refuse_loss`.
    """
    away: dict[str, list[str]] = {}
    parts = [(part, changed) for part, changed in emptied.items() if part]
    for row in gone.filter(pc.greater(gone["n_artifacts"], 0)).to_pylist() if parts else ():
        names, updated = (row["artifact_id"], row["stamp"]), row["updated"].timestamp()
        for part, changed in parts:
            if changed < updated and any(f"{name}/".startswith(part) for name in names):
                away.setdefault(part, []).append(row["artifact_id"])
                break
    return away


def _emptied(part: str, artifact_ids: Sequence[str]) -> Failure:
    message = EMPTIED.format(len(artifact_ids), brief(min(artifact_ids)))
    return Failure(part, Stage.ARTIFACTS.value, SourceShrunkError.__name__, message)


def _current(listings: Sequence[Listing], known: pa.Table, recipe_id: str) -> list[bool]:
    """Return for each listing whether the ledger has its artifact with this stamp and recipe."""
    ids = pa.array([listing.artifact_id for listing in listings], pa.string())
    stamps = pa.array([listing.stamp for listing in listings], pa.string())
    row = pc.index_in(ids, known["artifact_id"])
    same = pc.and_(pc.equal(known["stamp"].take(row), stamps), pc.equal(known["recipe"].take(row), recipe_id))
    found: list[bool] = same.fill_null(False).to_pylist()
    return found


def _among(column: pa.ChunkedArray, ids: Iterable[str]) -> pa.ChunkedArray:
    """Return for each value of a column whether it is one of these ids."""
    return pc.is_in(column, pa.array(list(ids), pa.string()))


def refuse_loss(plan: CorpusPlan, in_ledger: pa.Table, max_loss: float) -> None:
    """Raise SourceShrunkError if the source lost more than the share `max_loss` of known artifacts.

    Artifacts that could never be read do not count. It also does so if the source has none of the known artifacts, and
    fewer others that can be listed: the folder may be the place of a disk that is not mounted. With a `max_loss` of 1,
    it does so only if the source lists nothing. A plan that deletes nothing passes.
    """
    unread = in_ledger.filter(pc.equal(in_ledger["n_artifacts"], 0))["artifact_id"].to_pylist()
    no_loss = len({*unread} & {*plan.deleted})
    known, deleted = len(in_ledger) - no_loss, len(plan.deleted) - no_loss
    loss = known - plan.artifacts
    fewer = plan.artifacts - len(plan.failures) < known
    emptied = 0 < known <= deleted and (not plan.artifacts or (max_loss < 1 and fewer))
    if not deleted or not (emptied or loss > max_loss * known):
        return
    raise SourceShrunkError(
        f"the source lists {plan.artifacts} artifacts, the index has {known}: refused to delete {deleted}. {MEANT}"
    )


def refuse_skips(now_skipped: int, known: int, max_loss: float) -> None:
    """Raise SourceShrunkError if more than the share `max_loss` of known artifacts are skipped from now on."""
    if now_skipped > max_loss * known:
        raise SourceShrunkError(
            f"{now_skipped} of {known} artifacts in the index would now be skipped: refused to remove their records."
            " If this is meant, run again with --allow-loss"
        )
