"""Context packs: what answers a query, put together for a model under a hard budget of tokens.

    candidates -> no duplicates -> as many as fit -> reading order

Candidates stand in the order in which they are wanted: what is pinned, the sessions that were named, then the hits,
best first, the summaries of an artifact behind its best hit. Each is in the pack or in what was dropped, once. One that
does not fit keeps none behind it from its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from findingaid.claims.eligible import NEITHER, Eligible
from findingaid.embedding.tokens import Count
from findingaid.errors import ConfigError, NotFoundError, QueryError, SynthesisError, failure_kind, one_line
from findingaid.model import SYNOPSIS, Hit, Outcome, Segment, Stage
from findingaid.query.forms import Form, Message, Room, rendered, tokens
from findingaid.query.pieces import Dropped, Piece
from findingaid.query.repeats import Said
from findingaid.query.show import SummaryView, show, summaries
from findingaid.store import Ledger, LedgerRow, Store
from findingaid.store.ledger import OUTCOMES
from findingaid.store.sql import any_of, both, of_artifacts
from findingaid.summaries import AnchoredSummary, Summarizer
from findingaid.synthesis import SUMMARIZERS

if TYPE_CHECKING:
    from findingaid.query.reader import Key, Reader

Summarizing = Summarizer | str | Mapping[str, Any] | bool | None
"""A summarizer, its kind or spec, False for none, None for what the configuration says."""

TIERS = ("extracts", "summaries", "digest")
"""What the best of a pack is: texts as they are; also summaries that somebody wrote and the index keeps; also one
that a summarizer wrote of what did not fit."""

DIGEST_SHARE = 4
"""A digest may take this part of the budget, a quarter, …"""

DIGEST_TOKENS = 800
"""… and no more than this."""

SUMMARY_COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "text", "text_start", "producer_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ContextPack:
    """Pieces in reading order, which `rendered` in their form are `tokens` of the `budget`, and all that was dropped.

    `tier` is an index of `TIERS`; `degraded` says, a line each, what is less than was asked for.
    """

    queries: tuple[str, ...]
    form: Form
    budget: int
    tokens: int
    tokenizer: str
    pieces: Sequence[Piece]
    dropped: Sequence[Dropped]
    tier: int
    degraded: Sequence[str]

    @property
    def rendered(self) -> str | list[Message]:
        """What a model is shown."""
        return rendered(self.pieces, self.form)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "pieces": [piece.to_dict() for piece in self.pieces],
            "dropped": [dropped.to_dict() for dropped in self.dropped],
            "rendered": self.rendered,
        }

    def __str__(self) -> str:
        reasons = [dropped.reason for dropped in self.dropped]
        counted = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
        return (
            f"{self.tokens:,} of {self.budget:,} tokens, {len(self.pieces)} kept, {len(self.dropped)} dropped"
            f"{f' ({counted})' if counted else ''}, tier {self.tier}: {TIERS[self.tier]}"
        )


@dataclass(frozen=True)
class Packer:
    """Puts pieces together that are, in one form and by one count, within a budget."""

    budget: int
    form: Form
    count: Count
    tokenizer: str = ""

    def __post_init__(self) -> None:
        if (least := max(1, tokens([], self.form, self.count))) > self.budget:
            raise QueryError(f"budget_tokens must be at least {least} as {self.form}, got {self.budget:,}")

    def pack(
        self,
        queries: Sequence[str],
        candidates: Sequence[Piece],
        summarizer: Summarizer | None = None,
        degraded: Sequence[str] = (),
    ) -> ContextPack:
        """As many of the candidates as fit, and with a summarizer a digest of those that do not.

        Never raises for what a summarizer does: `degraded` says so, and the pack is the one without.
        """
        kept, dropped = fitting(candidates, self.budget, self.form, self.count)
        problems = list(degraded)
        if summarizer and any(each.reason == "budget" for each in dropped):
            try:
                kept, dropped = self._with_digest(candidates, summarizer)
            except Exception as error:  # noqa: BLE001  # a summarizer may raise anything; the pack stands without it
                problems.append(f"no digest: {one_line(error)} [{failure_kind(error)}]")
        pinned = [each.piece.cite for each in dropped if each.piece.kind == "pinned" and each.reason == "budget"]
        problems += [f"{cite} does not fit" for cite in pinned]
        pieces = in_reading_order(kept, candidates)
        used = tokens(pieces, self.form, self.count)
        return ContextPack(
            tuple(queries), self.form, self.budget, used, self.tokenizer, pieces, dropped, _tier(pieces), problems
        )

    def _with_digest(self, candidates: Sequence[Piece], summarizer: Summarizer) -> tuple[list[Piece], list[Dropped]]:
        """What fits beside a digest, and the digest. Raises SynthesisError where there is none that fits."""
        room = min(self.budget // DIGEST_SHARE, DIGEST_TOKENS)
        kept, dropped = fitting(candidates, self.budget - room, self.form, self.count)
        left = in_reading_order([each.piece for each in dropped if each.reason == "budget"], candidates)
        made = digest(left, summarizer)
        if tokens(in_reading_order([*kept, made], candidates), self.form, self.count) > self.budget:
            raise SynthesisError(f"it has more than the {room:,} tokens that were left for it", "parse")
        return [*kept, made], dropped


def fitting(candidates: Sequence[Piece], budget: int, form: Form, count: Count) -> tuple[list[Piece], list[Dropped]]:
    """Those that fit, each where those wanted more leave room for it, and the others with their reasons."""
    kept, dropped = _fitting(candidates, Room(budget, form, count))
    if tokens(in_reading_order(kept, candidates), form, count) > budget:  # of a tokenizer unlike any known
        return _fitting(candidates, Room(budget, form, count, always=True))
    return kept, dropped


def _fitting(candidates: Sequence[Piece], room: Room) -> tuple[list[Piece], list[Dropped]]:
    kept: list[Piece] = []
    said: list[tuple[Piece, Said]] = []
    dropped: list[Dropped] = []
    for piece in candidates:
        words = Said(piece.text)
        if not piece.text.strip():
            dropped.append(Dropped(piece, "empty"))
        elif repeated := next((other.cite for other, others in said if words.repeats(others)), None):
            dropped.append(Dropped(piece, "duplicate", repeated))
        elif not room.has(piece, kept, whole := in_reading_order([*kept, piece], candidates)):
            dropped.append(Dropped(piece, "budget"))
        else:
            kept = whole
            said.append((piece, words))
    return kept, dropped


def in_reading_order(pieces: Iterable[Piece], candidates: Sequence[Piece]) -> list[Piece]:
    """What is pinned first, then sessions, then artifact after artifact, its summaries before its text, a digest last.

    Artifacts stand in the order in which they are wanted, what is of one in the order of its text.
    """
    artifacts = {key: place for place, key in enumerate(dict.fromkeys(map(_artifact, candidates)))}
    kinds = {"pinned": 0, "session": 1, "digest": 3}

    def place(piece: Piece) -> tuple[int, int, bool, int]:
        rank = artifacts.get(_artifact(piece), len(artifacts))
        return kinds.get(piece.kind, 2), rank, piece.kind != "summary", piece.surface_index

    return sorted(pieces, key=place)


def _artifact(piece: Piece) -> Key:
    return piece.corpus, piece.artifact_id


def _tier(pieces: Iterable[Piece]) -> int:
    return max((2 if piece.kind == "digest" else 1 for piece in pieces if piece.written), default=0)


def chosen(given: Summarizing, default: Summarizer | None) -> tuple[Summarizer | None, str]:
    """Who writes of what does not fit, and why nobody does where somebody was asked for."""
    if given is None or given is False:
        return (default if given is None else None), ""
    if given is True:
        return default, "" if default else "no digest: the configuration has no context.summarizer"
    if isinstance(given, Summarizer):
        return given, ""
    try:
        return SUMMARIZERS.create({"kind": given} if isinstance(given, str) else given, "summarizer"), ""
    except ConfigError as error:
        return None, f"no digest: {error}"


def pinned_pieces(pinned: Iterable[str | AnchoredSummary]) -> list[Piece]:
    """What a caller wants in, whatever is found."""
    texts = (text.to_prompt_text() if isinstance(text, AnchoredSummary) else text for text in pinned)
    return [Piece("pinned", text, surface_index=place) for place, text in enumerate(texts, 1)]


def session_piece(store: Store, session: str, corpora: Sequence[str]) -> Piece:
    """The newest anchored summary of a session. Raises QueryError where not exactly one of these corpora has one."""
    found: dict[tuple[str, str], SummaryView] = {}
    for corpus in corpora:
        try:
            artifact = show(store, session, [corpus])
        except QueryError:  # not of this corpus
            continue
        for view in summaries(store, artifact.artifact_id, [corpus]):
            found[corpus, artifact.artifact_id] = view
    if len(found) != 1:
        where = f"in several corpora, {', '.join(corpus for corpus, _ in found)}: name one" if found else "not there"
        raise (QueryError if found else NotFoundError)(
            f"an anchored summary of {session!r} is {where}: `findingaid show --history` shows them"
        )
    ((key, view),) = found.items()
    return Piece("session", view.summary.to_prompt_text(), *key, surface_kind=SYNOPSIS, producer_id=view.producer_id)


def wanted(hits: Sequence[Hit], generated: Mapping[Key, Sequence[Piece]]) -> list[Piece]:
    """Hits, best first, the summaries of an artifact behind its best hit; a hit that is one of these is a summary."""
    by_id = {piece.record_id: piece for pieces in generated.values() for piece in pieces}
    found: dict[str, Piece] = {}
    for hit in hits:
        known = by_id.get(hit.record_id)
        piece = replace(known, score=hit.score) if known and known.text == hit.text else Piece.of(hit)
        found.setdefault(hit.record_id, piece)
        for summary in generated.get((hit.corpus, hit.artifact_id), ()):
            found.setdefault(summary.record_id, summary)
    return list(found.values())


def summaries_of(reader: Reader, keys: Sequence[Key], eligible: Eligible) -> dict[Key, list[Piece]]:
    """artifact -> its published summaries, in their order: of its text, and of its claims where that may be shown."""
    if not keys:
        return {}
    condition = both(of_artifacts(keys), any_of(both(NEITHER, "producer_id <> ''"), eligible.nodes(reader.members)))
    rows = reader.records.to_table(columns=list(SUMMARY_COLUMNS), filter=condition).to_pylist()
    found: dict[Key, list[Piece]] = {}
    for row in sorted(rows, key=lambda row: row["surface_index"]):
        start = row.pop("text_start")
        piece = Piece("summary", row.pop("text")[start:], **row)
        found.setdefault(_artifact(piece), []).append(piece)
    return found


def missing_summaries(store: Store, keys: Sequence[Key]) -> list[str]:
    """Of which artifacts a synopsis or a summary node is wanted and has not come, a line each."""
    found: list[str] = []
    for corpus in dict.fromkeys(corpus for corpus, _ in keys):
        rows = Ledger(store).rows(corpus, [artifact for name, artifact in keys if name == corpus])
        found += [f"{corpus}/{i}: {line}" for i, row in sorted(rows.items()) for line in _late(row)]
    return found


def _late(row: LedgerRow) -> Iterator[str]:
    for what, stage in (("synopsis", Stage.SYNOPSES), ("summary node", Stage.SUMMARY_NODES)):
        outcome = getattr(row, OUTCOMES[stage])
        if outcome in {Outcome.FAILED, Outcome.PENDING}:
            told = row.failed_stage in {"", stage} and row.failed_message
            kind = f" [{row.failed_kind}]" if told and row.failed_kind else ""
            yield f"its {what} is {outcome}{f': {told}' if told else ''}{kind}"


def digest(pieces: Sequence[Piece], summarizer: Summarizer) -> Piece:
    """A summary of pieces, each point with what it was taken from.

    Points that cite none of them are left out. Raises SynthesisError where nothing is left, and what a summarizer does.
    """
    segments = [Segment(place, "", piece.text) for place, piece in enumerate(pieces)]
    made = summarizer.summarize(segments, None)
    if not isinstance(made, AnchoredSummary):
        raise SynthesisError(f"{summarizer.id} gave a {type(made).__name__}, expected an AnchoredSummary", "parse")
    sections = []
    for section in made.sections:
        points = [f"- {p.text} [{cites}]" for p in section.points if (cites := _cites(p.turns, pieces))]
        if points:
            sections.append("\n".join((f"{section.label}:", *points)))
    if not sections:
        raise SynthesisError(f"{summarizer.id} says nothing of what did not fit", "parse")
    return Piece("digest", "\n".join(sections), producer_id=summarizer.id)


def _cites(turns: Iterable[int], pieces: Sequence[Piece]) -> str:
    return ", ".join(pieces[turn].cite for turn in turns if turn < len(pieces))
