"""Context packs: the pieces that answer a query, assembled for a model under a hard token budget.

    candidates -> no duplicates -> as many as fit -> reading order

Candidates come in order of priority: pinned texts, the named sessions, then the hits, best first, with the summary
records of an artifact after its best hit. Each candidate ends up once, either in the pack or in the list of dropped
pieces. If one does not fit, the ones after it are still tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from findingaid.claims.eligible import NEITHER, Eligible
from findingaid.embedding.tokens import Count
from findingaid.errors import ConfigError, NotFoundError, QueryError, SynthesisError, failure_kind, one_line
from findingaid.model import SYNOPSIS, Hit, Outcome, Stage
from findingaid.query.context.digest import Digest, read_digest, update_digest
from findingaid.query.context.pieces import Dropped, DropReason, Piece
from findingaid.query.context.rendering import BOUNDARY, Form, Message, TokenBudget, count_tokens, render
from findingaid.query.lookup.artifact import AnchoredSummaryView, read_anchored_summaries, read_artifact
from findingaid.store import Ledger, LedgerRow, Store
from findingaid.store.ledger import OUTCOMES
from findingaid.store.sql import any_of, both, of_artifacts
from findingaid.synthesis import SUMMARIZERS
from findingaid.synthesis.anchored_summary import AnchoredSummary, Summarizer
from findingaid.text.repeats import WordSequence

if TYPE_CHECKING:
    from findingaid.query.search.reader import Key, Reader
from findingaid.embedding.tokens import EMBEDDER

SummarizerOption = Summarizer | str | Mapping[str, Any] | bool | None
"""A summarizer, its kind or spec; False for none, True or None for the configured one."""

PACK_TIERS = ("extracts", "summaries", "digest")
"""Kinds of text in a pack, by tier.

0: only texts copied from their source; 1: also generated summaries from the index; 2: also a generated digest of the
pieces that did not fit."""

DIGEST_SHARE = 4
"""A digest may take 1/4 of the budget, …"""

DIGEST_TOKENS = 800
"""… but at most this many tokens."""

NOTES = 3
"""Lines of `degraded` that a result has, …"""

NOTE_CHARS = 120
"""… each of at most this many characters."""

SUMMARY_COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "text", "shown", "producer_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ContextPack:
    """Pieces in reading order, and all pieces that were dropped.

    `tokens` is the size of `rendered` in the given form, out of `budget`. `tier` is an index into `PACK_TIERS`.
    `degraded` has one line for each way in which the pack falls short of the request. `digest` covers the pieces that
    did not fit, in this pack and the packs before it; pass the pack as `previous` to the next one.
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
    digest: Digest | None = None
    fresh_seconds: float | None = None
    """Time that the check of freshness took; None without one."""

    @property
    def rendered(self) -> str | list[Message]:
        """The pack as a model sees it."""
        return render(self.pieces, self.form)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "pieces": [piece.to_dict() for piece in self.pieces],
            "dropped": [dropped.to_dict() for dropped in self.dropped],
            "digest": self.digest.model_dump(mode="json") if self.digest else None,
            "rendered": self.rendered,
        }

    def to_result(self) -> dict[str, Any]:
        """Return the rendered pack with the number of dropped pieces by reason, and the first lines of `degraded`."""
        return {
            "rendered": self.rendered,
            "tokens": self.tokens,
            "budget": self.budget,
            "dropped": dict(Counter(each.reason for each in self.dropped)),
            "degraded": [_shortened(line) for line in self.degraded[:NOTES]],
        }

    def __str__(self) -> str:
        reasons = [dropped.reason for dropped in self.dropped]
        counted = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
        return (
            f"{self.tokens:,} of {self.budget:,} tokens, {len(self.pieces)} kept, {len(self.dropped)} dropped"
            f"{f' ({counted})' if counted else ''}, tier {self.tier}: {PACK_TIERS[self.tier]}"
        )


PreviousPack = ContextPack | Digest | AnchoredSummary | Mapping[str, Any] | None
"""An earlier pack, its digest or an anchored summary; each of them also as a JSON object."""


@dataclass(frozen=True)
class Packer:
    """Assembler of packs that stay within a token budget, for one form and one token counter.

    The budget limits the rendered pack, or with `as_result` the JSON of `to_result`. Raises QueryError if the budget is
    too small even for an empty pack.
    """

    budget: int
    form: Form
    count: Count
    tokenizer: str = ""
    as_result: bool = False

    def __post_init__(self) -> None:
        self._require(max(1, count_tokens([], self.form, self.count)))

    def pack(
        self,
        queries: Sequence[str],
        candidates: Sequence[Piece],
        summarizer: Summarizer | None = None,
        degraded: Sequence[str] = (),
        previous: Digest | None = None,
    ) -> ContextPack:
        """Pack as many candidates as fit, and, with a summarizer, a digest of those that do not.

        The digest continues the `previous` one. Never raises if the summarizer fails: the pack then has the previous
        digest or none, and `degraded` says so.
        """
        if not self.as_result:
            return self._pack(queries, candidates, summarizer, degraded, previous)
        notes = [f"{piece.cite} does not fit" for piece in candidates if piece.kind == "pinned"]
        notes += ["no digest: …" * 10] if summarizer or previous else []
        frame = self._frame([*notes, *degraded])
        self._require(frame + max(1, count_tokens([], self.form, self._count_escaped)))
        within = replace(self, budget=self.budget - frame, count=self._count_escaped, as_result=False)
        return self._measured(within._pack(queries, candidates, summarizer, degraded, previous))

    def _require(self, least: int) -> None:
        if least > self.budget:
            raise QueryError(f"budget_tokens must be at least {least} as {self.form}, got {self.budget:,}")

    def _frame(self, notes: Sequence[str]) -> int:
        """Return the tokens of a result besides those of its pieces, at most."""
        roles = [{"role": role, "content": ""} for role in ("system", "user")]
        largest: dict[DropReason, int] = {"budget": 999, "duplicate": 999, "empty": 999}
        pack = ContextPack((), self.form, self.budget, self.budget, "", (), (), 0, notes).to_result()
        pack |= {"dropped": largest, "rendered": roles if self.form == "messages" else ""}
        return self.count(_json(pack)) + BOUNDARY

    def _count_escaped(self, text: str) -> int:
        """Count the tokens of a text as it is in the JSON of a result."""
        return self.count(_json(text))

    def _measured(self, pack: ContextPack) -> ContextPack:
        """Return a pack with the tokens of its result, and without its last notes if they do not fit."""
        pack = replace(pack, budget=self.budget, tokens=0)
        while (used := self.count(_json(pack.to_result()))) > pack.tokens:  # the number itself is counted, too
            pack = replace(pack, tokens=used)
        if pack.tokens > self.budget and pack.degraded:
            return self._measured(replace(pack, degraded=pack.degraded[: min(len(pack.degraded), NOTES) - 1]))
        return pack

    def _pack(
        self,
        queries: Sequence[str],
        candidates: Sequence[Piece],
        summarizer: Summarizer | None,
        degraded: Sequence[str],
        previous: Digest | None,
    ) -> ContextPack:
        made = self._select_beside(previous, candidates)
        new = _left_out(made.dropped, candidates)
        if summarizer and (previous.uncovered(new) if previous else new):
            try:
                made = self._with_updated_digest(candidates, summarizer, previous)
            except Exception as error:  # noqa: BLE001  # a summarizer may raise anything; the pack does without it
                problem = f"{one_line(error)} [{failure_kind(error)}]"
                made.problems.insert(0, f"{'the digest is not updated' if previous else 'no digest'}: {problem}")
        pinned = [each.piece.cite for each in made.dropped if each.piece.kind == "pinned" and each.reason == "budget"]
        problems = [*(f"{cite} does not fit" for cite in pinned), *made.problems, *degraded]
        pieces = sort_for_reading(made.kept, candidates)
        used = count_tokens(pieces, self.form, self.count)
        return ContextPack(
            tuple(queries), self.form, self.budget, used, self.tokenizer, pieces, made.dropped, _tier(pieces), problems,
            made.digest,
        )  # fmt: skip

    def _select_beside(self, digest: Digest | None, candidates: Sequence[Piece]) -> _Selection:
        """Select the candidates that fit beside a digest, which is shortened if it is too long."""
        piece, problems = self._shortened(digest, [], candidates) if digest else (None, [])
        kept, dropped = select_fitting(candidates, self.budget, self.form, self.count, [piece] if piece else [])
        return _Selection(kept, dropped, digest, problems)

    def _with_updated_digest(
        self, candidates: Sequence[Piece], summarizer: Summarizer, previous: Digest | None
    ) -> _Selection:
        """Select the candidates that fit beside a digest of the others, which may be covered by the previous digest.

        Raises SynthesisError if there is no digest, or none that fits.
        """
        kept, dropped = select_fitting(candidates, self.budget - self._reserved, self.form, self.count)
        new = _left_out(dropped, candidates)
        uncovered = previous.uncovered(new) if previous else new
        digest = update_digest(previous, uncovered, summarizer) if uncovered or previous is None else previous
        piece, problems = self._shortened(digest, kept, candidates)
        if not piece:
            raise SynthesisError(f"it has more than the {self._reserved:,} tokens reserved for it", "parse")
        return _Selection([*kept, piece], dropped, digest, problems)

    @property
    def _reserved(self) -> int:
        """Number of tokens that a digest may have."""
        return min(self.budget // DIGEST_SHARE, DIGEST_TOKENS)

    def _shortened(
        self, digest: Digest, kept: Sequence[Piece], candidates: Sequence[Piece]
    ) -> tuple[Piece | None, list[str]]:
        """Return a digest as a piece that fits beside the kept pieces, or None; and a line if points are left out."""
        for left_out in range(digest.points):
            piece = digest.piece(left_out)
            if piece and count_tokens([piece], self.form, self.count) <= self._reserved:
                whole = sort_for_reading([*kept, piece], candidates)
                if count_tokens(whole, self.form, self.count) <= self.budget:
                    short = f"the digest is without {left_out} of its {digest.points} points: they do not fit"
                    return piece, [short] if left_out else []
        return None, ["the digest does not fit"] if digest.points else []


@dataclass(frozen=True)
class _Selection:
    """Candidates that are kept and dropped, the digest of a pack, and the lines that it adds to `degraded`."""

    kept: Sequence[Piece]
    dropped: Sequence[Dropped]
    digest: Digest | None
    problems: list[str]


def _left_out(dropped: Iterable[Dropped], candidates: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that were dropped for the budget, in reading order."""
    return sort_for_reading([each.piece for each in dropped if each.reason == "budget"], candidates)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _shortened(note: str) -> str:
    return note if len(note) <= NOTE_CHARS else f"{note[: NOTE_CHARS - 1]}…"


def select_fitting(
    candidates: Sequence[Piece], budget: int, form: Form, count: Count, first: Sequence[Piece] = ()
) -> tuple[list[Piece], list[Dropped]]:
    """Keep each candidate that fits, in order of priority, and drop the others.

    The pieces in `first` are kept before them if they fit, and their texts are not compared with the candidates'.
    Returns the kept pieces in reading order, and the dropped ones with their reasons.
    """
    kept, dropped = _select_fitting(candidates, TokenBudget(budget, form, count), first)
    # Only with a tokenizer that differs more at the joints than `TokenBudget` allows for.
    if count_tokens(sort_for_reading(kept, candidates), form, count) > budget:
        return _select_fitting(candidates, TokenBudget(budget, form, count, always=True), first)
    return kept, dropped


def _select_fitting(
    candidates: Sequence[Piece], budget: TokenBudget, first: Sequence[Piece] = ()
) -> tuple[list[Piece], list[Dropped]]:
    kept: list[Piece] = []
    for piece in first:
        kept = [*kept, piece] if budget.admit(piece, kept, [*kept, piece]) else kept
    said: list[tuple[Piece, WordSequence]] = []
    dropped: list[Dropped] = []
    for piece in candidates:
        words = WordSequence(piece.text)
        if not piece.text.strip():
            dropped.append(Dropped(piece, "empty"))
        elif repeated := next((other.cite for other, others in said if words.repeats(others)), None):
            dropped.append(Dropped(piece, "duplicate", repeated))
        elif not budget.admit(piece, kept, whole := sort_for_reading([*kept, piece], candidates)):
            dropped.append(Dropped(piece, "budget"))
        else:
            kept = whole
            said.append((piece, words))
    return kept, dropped


def sort_for_reading(pieces: Iterable[Piece], candidates: Sequence[Piece]) -> list[Piece]:
    """Sort pieces for reading: pinned, sessions, then artifact by artifact with summaries before text, digest last.

    Artifacts are in order of priority, the pieces of one artifact in the order of its text.
    """
    artifacts = {key: place for place, key in enumerate(dict.fromkeys(map(_artifact_key, candidates)))}
    kinds = {"pinned": 0, "session": 1, "digest": 3}

    def place(piece: Piece) -> tuple[int, int, bool, int]:
        rank = artifacts.get(_artifact_key(piece), len(artifacts))
        return kinds.get(piece.kind, 2), rank, piece.kind != "summary", piece.surface_index

    return sorted(pieces, key=place)


def _artifact_key(piece: Piece) -> Key:
    return piece.corpus, piece.artifact_id


def _tier(pieces: Iterable[Piece]) -> int:
    return max((2 if piece.kind == "digest" else 1 for piece in pieces if piece.written), default=0)


def previous_digest(previous: PreviousPack) -> Digest | None:
    """Return the digest of an earlier pack. Raises QueryError if `previous` is not a pack, digest or summary."""
    return previous.digest if isinstance(previous, ContextPack) else read_digest(previous)


def choose_summarizer(given: SummarizerOption, default: Summarizer | None) -> tuple[Summarizer | None, str]:
    """Return the summarizer to use, and a message if one was requested but is not available, else ""."""
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


def pieces_from_pinned(pinned: Iterable[str | AnchoredSummary]) -> list[Piece]:
    """Turn texts and anchored summaries that the caller pinned into pieces."""
    texts = (text.to_prompt_text() if isinstance(text, AnchoredSummary) else text for text in pinned)
    return [Piece("pinned", text, surface_index=place) for place, text in enumerate(texts, 1)]


def read_session_piece(reader: Reader, session: str, corpora: Sequence[str]) -> Piece:
    """Return the newest anchored summary of a session as a piece.

    Raises QueryError if several of these corpora have one, NotFoundError if none has.
    """
    found: dict[tuple[str, str], AnchoredSummaryView] = {}
    for corpus in corpora:
        try:
            artifact = read_artifact(reader, session, [corpus])
        except QueryError:  # not in this corpus
            continue
        for view in read_anchored_summaries(reader, artifact.artifact_id, [corpus]):
            found[corpus, artifact.artifact_id] = view
    if len(found) != 1:
        where = (
            f"in several corpora, {', '.join(corpus for corpus, _ in found)}: name one" if found else "not published"
        )
        raise (QueryError if found else NotFoundError)(
            f"an anchored summary of {session!r} is {where}: `findingaid show --history` shows them"
        )
    ((key, view),) = found.items()
    return Piece("session", view.summary.to_prompt_text(), *key, surface_kind=SYNOPSIS, producer_id=view.producer_id)


def pieces_from_hits(hits: Sequence[Hit], generated: Mapping[Key, Sequence[Piece]]) -> list[Piece]:
    """Turn hits, best first, into pieces, with the summary records of an artifact after its best hit.

    A hit that is itself one of these records, with unchanged text, becomes a piece of kind "summary".
    """
    by_id = {piece.record_id: piece for pieces in generated.values() for piece in pieces}
    found: dict[str, Piece] = {}
    for hit in hits:
        known = by_id.get(hit.record_id)
        piece = replace(known, score=hit.score) if known and known.text == hit.text else Piece.of(hit)
        found.setdefault(hit.record_id, piece)
        for summary in generated.get((hit.corpus, hit.artifact_id), ()):
            found.setdefault(summary.record_id, summary)
    return list(found.values())


def read_summary_records(reader: Reader, keys: Sequence[Key], eligible: Eligible) -> dict[Key, list[Piece]]:
    """Map each artifact to its published summary records, in order: generated ones, and its summary nodes.

    Summary nodes that may not be shown are left out.
    """
    if not keys:
        return {}
    condition = both(
        of_artifacts(keys), any_of(both(NEITHER, "producer_id <> ''"), eligible.nodes(reader.node_members))
    )
    rows = reader.records.to_table(columns=list(SUMMARY_COLUMNS), filter=condition).to_pylist()
    found: dict[Key, list[Piece]] = {}
    for row in sorted(rows, key=lambda row: row["surface_index"]):
        shown, text = row.pop("shown"), row.pop("text")
        piece = Piece("summary", text if shown is None else shown, **row)
        found.setdefault(_artifact_key(piece), []).append(piece)
    return found


def missing_summary_records(store: Store, keys: Sequence[Key]) -> list[str]:
    """Return one line for each synopsis or summary node of these artifacts that failed or is pending."""
    found: list[str] = []
    for corpus in dict.fromkeys(corpus for corpus, _ in keys):
        rows = Ledger(store).rows(corpus, [artifact for name, artifact in keys if name == corpus])
        found += [f"{corpus}/{i}: {line}" for i, row in sorted(rows.items()) for line in _missing_lines(row)]
    return found


def _missing_lines(row: LedgerRow) -> Iterator[str]:
    for what, stage in (("synopsis", Stage.SYNOPSES), ("summary node", Stage.SUMMARY_NODES)):
        outcome = getattr(row, OUTCOMES[stage])
        if outcome in {Outcome.FAILED, Outcome.PENDING}:
            told = row.failed_stage in {"", stage} and row.failed_message
            kind = f" [{row.failed_kind}]" if told and row.failed_kind else ""
            yield f"its {what} is {outcome}{f': {told}' if told else ''}{kind}"


@dataclass(frozen=True)
class ContextDefaults:
    """Components and defaults built from `ContextSettings`. Without `count`, the embedder's tokenizer counts."""

    tokenizer: str = EMBEDDER
    count: Count | None = None
    summarizer: Summarizer | None = None
