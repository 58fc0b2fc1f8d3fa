"""Freshness of what was found: whether the sources still have the versions that are published.

A check asks each source for the stamps of exactly these artifacts, and reads none of them. On request it reads them
again, and also tells whether a quoted text is still there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, is_dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from findingaid.corpus import Corpus
from findingaid.errors import DecomposeError, QueryError, SkippedError, failure_kind
from findingaid.model import Artifact, Fresh, Hit, Listing
from findingaid.protocols import ConcurrentSource, Source, StatSource
from findingaid.query.search.options import FreshnessOption
from findingaid.query.search.reader import Key
from findingaid.request_limits import seconds_left
from findingaid.store import Ledger, Store
from findingaid.store.artifacts import artifact_version
from findingaid.store.ledger import LedgerRow
from findingaid.store.sql import of_artifacts
from findingaid.strategies.with_synopsis import quoted_text
from findingaid.telemetry import in_context

if TYPE_CHECKING:
    from findingaid.query.search.reader import Reader
    from findingaid.query.search.request import Request

VERIFY: Literal["verify"] = "verify"
NO_STAMPS = "its source cannot be asked for single artifacts: verify reads it"
RACY = "it was indexed while it was being written: verify reads it"
OUT_OF_REACH = "its source is out of reach"
UNREADABLE = "it cannot be read at its source"
NOT_IN_TIME = "it could not be read in time"
NOT_CONFIGURED = "the configuration has no such corpus"


def wants_verification(option: FreshnessOption) -> bool:
    """Return whether to read the artifacts again. Raises QueryError for an unknown option."""
    if option not in {True, False, VERIFY}:
        raise QueryError(f"fresh: expected true, false or {VERIFY!r}, got {option!r}")
    return option == VERIFY


@dataclass(frozen=True, slots=True)
class Freshness:
    """Freshness of a published artifact.

    `note` says since when it is changed, or why it is unknown. `text` is its text at the source, if that was read.
    """

    fresh: Fresh
    note: str = ""
    text: str | None = None

    def note_on(self, quote: str) -> str:
        """Return the note, and whether a changed text still has a quote, if the text was read."""
        if self.fresh != "changed" or self.text is None or not quote:
            return self.note
        there = "its text is still there" if quote in self.text else "its text is no longer there"
        return f"{self.note}; {there}" if self.note else there


class HasFreshness(Protocol):
    """Result that carries freshness."""

    @property
    def artifact_id(self) -> str: ...

    @property
    def fresh(self) -> Fresh | None: ...

    @property
    def fresh_note(self) -> str | None: ...


M = TypeVar("M", bound=HasFreshness)


@dataclass(frozen=True)
class FreshnessCheck:
    """Freshness of artifacts by (corpus, artifact id), and the time that finding it out took."""

    found: Mapping[Key, Freshness]
    seconds: float

    def mark(self, item: M, corpus: str, quote: str = "") -> M:
        """Return a copy of a result with its freshness, and whether a changed source still has the quote."""
        known = self.found[corpus, item.artifact_id]
        change: Any = replace
        marked: M = change(item, fresh=known.fresh, fresh_note=known.note_on(quote))
        return marked


def published_versions(reader: Reader, keys: Iterable[Key]) -> dict[Key, str]:
    """Map (corpus, artifact id) to the version of the artifact that its published records were made from."""
    columns = ["corpus", "artifact_id", "artifact_version"]
    found = reader.records.to_table(columns=columns, filter=of_artifacts(sorted(set(keys)))).to_pylist()
    return {(row["corpus"], row["artifact_id"]): row["artifact_version"] for row in found}


@dataclass(frozen=True)
class VersionsStep:
    """Search step that notes in `found` of which versions the artifacts of the hits are; it changes no hit."""

    found: dict[Key, str]

    def process(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        if hits:
            self.found.update(published_versions(reader, [(hit.corpus, hit.artifact_id) for hit in hits]))
        return hits


def check_freshness(
    store: Store,
    versions: Mapping[Key, str],
    corpora: Mapping[str, Corpus],
    keys: Iterable[Key],
    *,
    verify: bool = False,
) -> FreshnessCheck:
    """Compare published artifacts with their sources as they are now; with `verify`, read them again.

    `versions` are those that the records were made from, see `published_versions`.
    """
    start = time.perf_counter()
    wanted: dict[str, list[str]] = {}
    for corpus, artifact_id in dict.fromkeys(keys):
        wanted.setdefault(corpus, []).append(artifact_id)
    found: dict[Key, Freshness] = {}
    for name, ids in wanted.items():
        if name in corpora:
            rows = Ledger(store).rows(name, ids)
            published = {i: versions[name, i] for i in ids if (name, i) in versions}
            source = source_as_now(corpora[name].source) if verify else corpora[name].source
            check = partial(_check, corpora[name], source, published, rows, verify)
            found |= zip(((name, i) for i in ids), _map(source, check, ids), strict=True)
        else:
            found |= {(name, i): Freshness("unknown", NOT_CONFIGURED) for i in ids}
    return FreshnessCheck(found, time.perf_counter() - start)


def source_as_now(source: Source) -> Source:
    """Return a source to read from that holds nothing of its last listing, which may be old in a process that goes on.

    One that can look at single artifacts reads them as they are anyway.
    """
    change: Any = replace
    anew: Source = source if isinstance(source, StatSource) or not is_dataclass(source) else change(source)
    return anew


def _map(source: Source, check: Callable[[str], Freshness], ids: Sequence[str]) -> list[Freshness]:
    """Check artifacts in order, several at once if their source mostly waits."""
    readers = source.readers if isinstance(source, ConcurrentSource) else 1
    if readers == 1 or len(ids) == 1:
        return [*map(check, ids)]
    with ThreadPoolExecutor(min(readers, len(ids))) as pool:
        return [*pool.map(lambda run: run(), [in_context(partial(check, i)) for i in ids])]


def _check(
    corpus: Corpus,
    source: Source,
    versions: Mapping[str, str],
    rows: Mapping[str, LedgerRow],
    verify: bool,
    artifact_id: str,
) -> Freshness:
    published, row = versions.get(artifact_id), rows.get(artifact_id)
    known = Freshness("unknown", NO_STAMPS)
    listing = None
    if isinstance(source, StatSource):
        try:
            listing = source.listing(artifact_id)
        except NotImplementedError:
            pass
        except Exception:  # noqa: BLE001  # a source may raise anything
            known = Freshness("unknown", OUT_OF_REACH)
        else:
            known = _compare_stamps(listing, published, row)
    if not verify or known.fresh == "gone":
        return known
    if seconds_left() == 0:
        return Freshness("unknown", NOT_IN_TIME)
    try:
        artifact = source.read(artifact_id)
    except SkippedError:
        return Freshness("changed", _since(listing, row))
    except Exception as error:  # noqa: BLE001  # as above
        return Freshness("unknown", NOT_IN_TIME if failure_kind(error) == "timeout" else UNREADABLE)
    if artifact_version(artifact) == published:
        return Freshness("current")
    return Freshness("changed", _since(listing, row), _text(corpus, artifact))


def _compare_stamps(listing: Listing | None, published: str | None, row: LedgerRow | None) -> Freshness:
    """Compare an artifact's stamp with the one in the ledger, as far as that belongs to the published version."""
    if listing is None:
        return Freshness("gone")
    if row is None or row.artifacts != published:
        return Freshness("changed", _since(listing, row))
    before, now = row.stamp.removesuffix("?"), listing.stamp.removesuffix("?")
    if before and now and before != now:
        return Freshness("changed", _since(listing, row))
    if not before or not now:
        return Freshness("unknown", NO_STAMPS)
    return Freshness("unknown", RACY) if row.stamp.endswith("?") else Freshness("current")


def _since(listing: Listing | None, row: LedgerRow | None) -> str:
    """Return since when an artifact is changed, as far as its source or the ledger tells."""
    if at := listing and listing.changed_at:
        return f"since {_shown(at)}"
    return f"after {_shown(row.updated)}" if row and row.updated else ""


def _shown(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")


def _text(corpus: Corpus, artifact: Artifact) -> str | None:
    try:
        return quoted_text(corpus.strategy, artifact)
    except (DecomposeError, KeyError):
        return artifact.raw if isinstance(artifact.raw, str) else None
