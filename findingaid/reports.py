"""Reports of plans and runs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from operator import add
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from findingaid.errors import SourceError
from findingaid.frames import to_frame
from findingaid.model import NO_USAGE, Failure, Note, Skipped, Usage

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Calls:
    """Counts of model calls; cached results are not counted.

    `embed` counts texts sent to the embedder. The others count calls per artifact: `synthesize` of the synthesizer,
    `extract` of the claim extractor, and `summarize` of the producer of summary nodes.
    """

    embed: int = 0
    synthesize: int = 0
    extract: int = 0
    summarize: int = 0

    def __add__(self, other: Calls) -> Calls:
        return Calls(*map(add, astuple(self), astuple(other)))


NO_CALLS = Calls()


@dataclass(frozen=True, slots=True)
class CutOff:
    """Number of texts longer than the embedder reads, and the first few artifacts that they belong to."""

    texts: int = 0
    artifacts: Sequence[str] = ()

    def __add__(self, other: CutOff) -> CutOff:
        ids = dict.fromkeys((*self.artifacts, *other.artifacts))
        return CutOff(self.texts + other.texts, tuple(ids)[:NAMED_CUT_OFF])

    @property
    def warning(self) -> str | None:
        if not self.texts:
            return None
        more = ", …" if len(self.artifacts) == NAMED_CUT_OFF else ""
        return (
            f"texts longer than the embedder reads, so that searches miss their ends: {self.texts:,}, in"
            f" {', '.join(self.artifacts)}{more}. Cut them by max_tokens, and ask for shorter synopses"
        )


NAMED_CUT_OFF = 5


NAMED = 5
"""Number of artifacts that a line on several names."""


NOTHING_CUT_OFF = CutOff()


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """Numbers of artifacts without claims: reason -> suffix of the artifact's id, "" without one -> number."""

    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, absences: Mapping[str, str]) -> Unclaimed:
        """Count artifacts by the reason for which they have no claims, given by artifact id."""
        return sum((cls({reason: {suffix_of(i): 1}}) for i, reason in absences.items()), cls())

    def __add__(self, other: Unclaimed) -> Unclaimed:
        counts = {reason: Counter(of) for reason, of in self.counts.items()}
        for reason, of in other.counts.items():
            counts.setdefault(reason, Counter()).update(of)
        return Unclaimed({reason: dict(of) for reason, of in counts.items()})

    def __str__(self) -> str:
        """Return one line, most common reason first; "" if every artifact has claims."""
        total = sum(sum(of.values()) for of in self.counts.values())
        if not total:
            return ""
        reasons = sorted(self.counts.items(), key=lambda item: (-sum(item[1].values()), item[0]))
        said = "; ".join(f"{_by_suffix(of)} ({reason})" for reason, of in reasons)
        return f"no claims in {total:,} artifact{'s' * (total > 1)}: {said}"


NAMED_SUFFIXES = 5
"""Number of suffixes that a line names for each reason."""


def _by_suffix(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{count:,} {suffix}".rstrip() for suffix, count in ranked[:NAMED_SUFFIXES]]
    rest = sum(count for _, count in ranked[NAMED_SUFFIXES:])
    return ", ".join([*named, *([f"{rest:,} others"] if rest else [])])


ALL_CLAIMED = Unclaimed()


NAMED_REFUSED = 3
"""Number of refused claims that the report of a run names."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Counts of one batch, or of a prediction of it; the sum of several reports has those of all their batches.

    - An artifact whose synopsis or claims failed is published all the same, and also counts as new or changed.
    - `tokens` counts the embedded texts by the embedder's own tokenizer. A plan cannot count those of synopses and
      claims that are not written yet.
    - `usage` covers all writers of synopses, claims and summary nodes; in a plan it is an upper bound. `cost` is None
      if one of their models has no price.
    - `pending` synopses, and the claims or summary nodes of `pending_claims` artifacts, are left to the next run, for
      the reason `waiting`.
    - `refused` are the claims and summary points that were found but not accepted, with the reason, a line each.
    - `skipped` are the artifacts that the source skips. `newly_skipped` are those among them that were indexed before.
    - `emptied` are the artifacts that had records before and have none now, such as a file that was cut to nothing.
    - `unclaimed` counts the artifacts in which no claim was found, by reason.
    - `noted` are the notes on the artifacts that were read: what was guessed or left out.
    """

    new: int = 0
    changed: int = 0
    failed: Sequence[Failure] = ()
    records: int = 0
    calls: Calls = NO_CALLS
    tokens: int = 0
    truncated: CutOff = NOTHING_CUT_OFF
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    pending: int = 0
    pending_claims: int = 0
    waiting: str = ""
    refused: Sequence[str] = ()
    skipped: Sequence[Skipped] = ()
    newly_skipped: Sequence[str] = ()
    emptied: Sequence[str] = ()
    unclaimed: Unclaimed = ALL_CLAIMED
    noted: Sequence[Note] = ()

    def __add__(self, other: BatchReport) -> BatchReport:
        counts = (one.name for one in fields(BatchReport))
        return BatchReport(**{name: _sum(getattr(self, name), getattr(other, name)) for name in counts})

    @property
    def remarks(self) -> list[str]:
        """Lines on artifacts that were skipped, emptied, guessed at or read in part, or in which no claim was found."""
        lost = {"skipped from now on": self.newly_skipped, "empty from now on": self.emptied}
        gone = [f"{why}, so their records are removed: {_named(ids)}" for why, ids in lost.items() if ids]
        unclaimed = filter(None, [str(self.unclaimed)])
        return [*skipped_lines(self.skipped), *gone, *note_lines(self.noted), *unclaimed]

    @property
    def warnings(self) -> list[str]:
        """Lines on texts cut off, claims refused, and work left to the next run."""
        more = "; …" if len(self.refused) > NAMED_REFUSED else ""
        named = f"claims refused: {len(self.refused):,}, {'; '.join(self.refused[:NAMED_REFUSED])}{more}"
        return [*filter(None, (self.truncated.warning, named if self.refused else "", self.left))]

    @property
    def left(self) -> str:
        """One line on the work left to the next run, with the reason; "" if there is none."""
        counts = {"synopses": self.pending, "artifacts' claims or summary nodes": self.pending_claims}
        waits = " and ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        return f"{waits} are left to the next run: {self.waiting}" if waits else ""


def _sum(one: Any, other: Any) -> Any:
    """Return the sum of two counts: None if one is unknown, the first of two reasons, both of two lists."""
    if one is None or other is None:
        return None
    if isinstance(one, str):
        return one or other
    return [*one, *other] if isinstance(one, Sequence) else one + other


@dataclass(frozen=True, slots=True)
class CorpusReport(BatchReport):
    """Result of a plan or a run for one corpus: the counts of its batches and, beyond those, of all its artifacts.

    `records` counts all records of the corpus. `skipped` are all skipped artifacts, which no other count includes.
    `exclude` are the patterns that leave out the artifacts that cannot be read, if the source has such patterns.
    `waits` are lines of the source on what it leaves to a later run. `repeated` is a line on synopses that all say the
    same. `expired` counts the approved claims that no artifact states any more. `error` is the reason if the whole
    corpus failed.
    """

    artifacts: int = 0
    unchanged: int = 0
    deleted: int = 0
    seconds: float = 0.0
    exclude: Sequence[str] = ()
    waits: Sequence[str] = ()
    repeated: str = ""
    expired: int = 0
    error: str | None = None

    def __str__(self) -> str:
        of_claims = [
            f", {count} {what}"
            for count, what in (
                (self.calls.extract, "artifacts read for claims"),
                (self.calls.summarize, "summary nodes written"),
            )
            if count
        ]
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return (
            f"{self.artifacts} artifacts, {self.new} new, {self.changed} changed, {self.unchanged} unchanged,"
            f" {self.deleted} deleted, {len(self.failed)} failed{skipped}; {self.records} records;"
            f" {self.calls.embed} texts embedded, {self.calls.synthesize} synopses written{''.join(of_claims)}"
        )

    @property
    def active(self) -> bool:
        """Whether the run changed anything, or anything failed."""
        return bool(self.new or self.changed or self.deleted or self.failed or self.error)

    @property
    def spent(self) -> str:
        """One line on the usage of synthesizers; "" if there was none."""
        if not self.usage.tokens:
            return ""
        money = "" if self.cost is None else f", {self.cost:,.2f} by the prices configured"
        return (
            f"{self.usage.calls:,} synthesizer calls, {self.usage.input_tokens:,} tokens in,"
            f" {self.usage.output_tokens:,} out{money}"
        )

    @property
    def remarks(self) -> list[str]:
        """Those of the batches, lines of the source, and how to leave out what cannot be read."""
        patterns = json.dumps(self.exclude, ensure_ascii=False)
        remedy = [f"to leave out what cannot be read, add to its source:  exclude: {patterns}"] if self.exclude else []
        return [*super(CorpusReport, self).remarks, *self.waits, *remedy]

    @property
    def warnings(self) -> list[str]:
        """Those of the batches, and lines on synopses that repeat each other and on approved claims that expired."""
        return [*super(CorpusReport, self).warnings, *filter(None, [self.repeated, expired_line(self.expired)])]


@dataclass(frozen=True, slots=True)
class Report:
    """A plan or a run over several corpora.

    `repaired` names tables that were lost or damaged and have been recreated. `unpublished` is the reason if readers
    still have the previous version. `held` is a line on a rollback that keeps them at an earlier one.
    `embed_seconds` is the time that a plan expects for embedding; None if unknown.
    """

    corpora: Mapping[str, CorpusReport]
    repaired: Sequence[str] = ()
    unpublished: str | None = None
    embed_seconds: float | None = None
    held: str = ""

    @property
    def ok(self) -> bool:
        return not any(self.problems())

    def problems(self) -> Iterator[str]:
        """Yield everything that failed, one line each."""
        for name, corpus in self.corpora.items():
            if corpus.error:
                yield f"{name}: {corpus.error}"
            for line in group_failures(corpus.failed):
                yield f"{name}: {line}"
        if self.unpublished:
            yield f"not published, readers keep the previous version: {self.unpublished}"

    def kinds(self) -> list[str]:
        """Return the kinds of everything that failed, each once; see `findingaid.explain`."""
        failures = (failure.kind for corpus in self.corpora.values() for failure in corpus.failed)
        errors = (SourceError.__name__ for corpus in self.corpora.values() if corpus.error)
        return list(dict.fromkeys((*errors, *failures)))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_pandas(self) -> pd.DataFrame:
        """Convert to a data frame with one row per corpus. Raises ConfigError without pandas."""
        return to_frame([{"corpus": name, **asdict(report)} for name, report in self.corpora.items()])


def suffix_of(path: str) -> str:
    """Return the suffix of a file name; "" if it has none."""
    return PurePosixPath(path).suffix


def format_counts(by_suffix: Mapping[str, int]) -> str:
    """Return counts by suffix on one line, the largest first: "12 .md, 3 .pdf, 1 without suffix"."""
    most = Counter(by_suffix).most_common()
    named = (f"{count:,} {' '.join(suffix.split()) or 'without suffix'}" for suffix, count in most)
    return ", ".join(named) or "no files"


def skipped_lines(skipped: Iterable[Skipped]) -> list[str]:
    """Return a line for each reason for skipping, with the number of artifacts by suffix."""
    by_reason: dict[str, Counter[str]] = defaultdict(Counter)
    for each in skipped:
        by_reason[each.reason][suffix_of(each.artifact_id)] += 1
    return [f"skipped {format_counts(counts)}: {reason}" for reason, counts in by_reason.items()]


def expired_line(count: int) -> str:
    """Return one line on approved claims that no artifact states any more; "" if there are none."""
    lists = "`findingaid claims list --expired` lists them"
    return (
        f"approved claims that no artifact states any more, so nothing cites them: {count:,}; {lists}" if count else ""
    )


def note_lines(notes: Iterable[Note]) -> list[str]:
    """Return a line for each kind of note and its words, with its number and the artifacts."""
    alike: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for note in notes:
        alike[note.kind, note.words][note.artifact_id] += note.count
    return [f"{words}: {_counted(counts)}" for (_, words), counts in alike.items()]


def _counted(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return f"{total:,} in {_named([*counts])}" if total > len(counts) else _named([*counts])


def group_failures(failures: Iterable[Failure]) -> list[str]:
    """Return a line for each failure; artifacts that failed alike share one line."""
    alike: dict[Failure, list[str]] = defaultdict(list)
    for failure in failures:
        alike[replace(failure, artifact_id="")].append(failure.artifact_id)
    return [str(replace(failure, artifact_id=_named(ids))) for failure, ids in alike.items()]


def _named(ids: Sequence[str]) -> str:
    if len(ids) == 1:
        return ids[0]
    return f"{len(ids):,} artifacts ({', '.join(ids[:NAMED])}{', …' if len(ids) > NAMED else ''})"


def duration(seconds: float) -> str:
    """Return a time in words, rounded: "20 seconds", "3 minutes"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds" if round(seconds) > 1 else "1 second"
    return f"{seconds / 60:,.0f} minutes" if seconds < 90 * 60 else f"{seconds / 3600:,.1f} hours"
