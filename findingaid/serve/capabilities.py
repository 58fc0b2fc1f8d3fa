"""Everything that can be asked of a served index: the one list that HTTP, MCP and JSONL are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from findingaid.errors import StoreError
from findingaid.query.provenance import Impact
from findingaid.query.request import Recency
from findingaid.query.where import ALWAYS
from findingaid.reviewing import ProposedClaim
from findingaid.serve import inputs, outputs

if TYPE_CHECKING:
    from findingaid.serve.session import Session


@dataclass(frozen=True)
class Capability:
    """One thing that can be asked, with the shapes of what is sent and of what comes back."""

    name: str
    description: str
    input: type[inputs.Input]
    output: Any
    call: Callable[[Session, Any], Mapping[str, Any]]
    read_only: bool = True

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Knows the schema of what comes back."""
        return TypeAdapter(self.output)


def _search(session: Session, asked: inputs.Search) -> dict[str, Any]:
    recency = Recency(asked.recency.field, asked.recency.half_life) if asked.recency else None
    hits = session.aid.search(**_said(asked, "recency"), recency=recency)
    return {"hits": [hit.to_dict() for hit in hits], "enough": hits.enough, "queries": hits.queries}


def _answer(session: Session, asked: inputs.Ask) -> dict[str, Any]:
    return session.aid.answer(**_said(asked)).to_dict()


def _context(session: Session, asked: inputs.Pack) -> dict[str, Any]:
    return session.aid.context(**_said(asked)).to_dict()


def _show(session: Session, asked: inputs.Show) -> dict[str, Any]:
    aid = session.aid
    if asked.level or asked.file is not None:
        return aid.disclose(asked.id, asked.level or "files", asked.corpus, asked.file).to_dict()
    claim = aid.passages(asked.id, [asked.corpus] if asked.corpus is not None else None)
    return (claim or aid.show(asked.id, asked.corpus)).to_dict()


def _neighbours(session: Session, asked: inputs.Neighbours) -> dict[str, Any]:
    aid, kinds, corpus = session.aid, asked.kinds, asked.corpus
    if asked.id is None:
        most = aid.most_referenced(asked.k, corpora=None if corpus is None else [corpus], kinds=kinds)
        return {"neighbours": [], "referenced": [each.to_dict() for each in most]}
    found = aid.neighbours(asked.id, corpus, kinds=kinds, reverse=asked.reverse)
    return {"neighbours": [each.to_dict() for each in found], "referenced": []}


def _why(session: Session, asked: inputs.Why) -> dict[str, Any]:
    links = session.aid.why(asked.id, asked.corpora, places=not session.elsewhere)
    return {"links": [link.to_dict() for link in links]}


def _impact(session: Session, asked: inputs.OfArtifact) -> dict[str, Any]:
    return session.aid.impact(asked.id, asked.corpus).to_dict()


def _corpora(session: Session, asked: inputs.OfCorpora) -> dict[str, Any]:
    aid = session.aid
    fields, kinds = aid.fields(asked.corpora), aid.searcher.reader().kinds
    listed = [
        {
            "corpus": corpus,
            "claims": aid.corpora[corpus].claims is not None,
            "surfaces": sorted(kinds.get(corpus, ())),
            "fields": [field.to_dict() for field in known],
        }
        for corpus, known in fields.items()
    ]
    return {"corpora": listed, "columns": ALWAYS, "llm": aid.answerer.model if aid.answerer else None}


def _status(session: Session, asked: inputs.OfCorpora) -> dict[str, Any]:
    told = [status.to_dict() for status in session.aid.status(asked.corpora)]
    for each in told:
        del each["vector_index"]  # says something of all corpora
    return {"published": _served(session), "dagster": session.dagster, "corpora": told}


def _served(session: Session) -> dict[str, Any] | None:
    try:
        versions = session.aid.versions()
    except StoreError:  # before the first run
        return None
    return next(({"version": v.version, "written": v.written} for v in versions if v.served), None)


def _propose(session: Session, asked: inputs.Proposal) -> dict[str, Any]:
    said = _said(asked, "reason")
    claims = session.aid.claims.propose(ProposedClaim(**said), actor=session.actor, reason=asked.reason)
    return claims[0].to_dict()


def _said(asked: inputs.Input, *apart: str) -> dict[str, Any]:
    """What was asked, as keywords of the library."""
    return {name: getattr(asked, name) for name in type(asked).model_fields if name not in apart}


CAPABILITIES: Sequence[Capability] = (
    Capability(
        "search",
        "Search the published index by meaning and by words; each hit has the artifact, its text and the span.",
        inputs.Search,
        outputs.Found,
        _search,
    ),
    Capability(
        "answer",
        "Answer a question from claims of the indexed texts, a citation behind every sentence; what no claim speaks of"
        " is named in gaps, and an answer without sentences means that nothing covers the question.",
        inputs.Ask,
        outputs.Answered,
        _answer,
    ),
    Capability(
        "context",
        "Put together what answers a query, within a budget of tokens, each piece with where it is from.",
        inputs.Pack,
        outputs.Context,
        _context,
    ),
    Capability(
        "show",
        "Open an artifact, a record or a claim by its id: its records in order, or a claim's passages; with level its"
        " metadata, its whole text as body, or the files that come with it.",
        inputs.Show,
        outputs.Shown,
        _show,
    ),
    Capability(
        "neighbours",
        "What an artifact refers to by links and dependencies, or what refers to it; without an id what most refer to.",
        inputs.Neighbours,
        outputs.Around,
        _neighbours,
    ),
    Capability(
        "why",
        "Where a claim, summary node, record or artifact comes from, link by link down to its source; each is checked.",
        inputs.Why,
        outputs.Links,
        _why,
    ),
    Capability(
        "impact",
        "What stands on an artifact: records, claims, decisions, summary nodes, and what refers to it.",
        inputs.OfArtifact,
        Impact,
        _impact,
    ),
    Capability(
        "corpora",
        "List the corpora that can be asked, with their surface kinds and the fields that filters can name; llm is the"
        " model that writes answers.",
        inputs.OfCorpora,
        outputs.Listed,
        _corpora,
    ),
    Capability(
        "status",
        "What is published and since when, what the index holds of each corpus, and what failed.",
        inputs.OfCorpora,
        outputs.State,
        _status,
    ),
    Capability(
        "propose_claim",
        "Propose that an artifact states something, with the passage that says so; a person decides whether it holds.",
        inputs.Proposal,
        outputs.Proposed,
        _propose,
        read_only=False,
    ),
)
