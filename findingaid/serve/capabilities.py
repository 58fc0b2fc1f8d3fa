"""Capabilities of a served index: the one list from which the HTTP, MCP and JSON lines servers are built."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic.json_schema import DEFAULT_REF_TEMPLATE

from findingaid.claims.review import ProposedClaim
from findingaid.errors import NotFoundError, StoreError, brief
from findingaid.query.lookup.browsing import Contents
from findingaid.query.lookup.provenance import Impact
from findingaid.query.search.filters.fields import FILTER_COLUMNS
from findingaid.query.search.request import Recency
from findingaid.serve import inputs, outputs
from findingaid.serve.calls import with_next_call
from findingaid.serve.hit_pages import page_of_hits, position
from findingaid.serve.view import View

if TYPE_CHECKING:
    from findingaid.aid import FindingAid


@dataclass(frozen=True)
class Capability:
    """Operation of a served index, with the schemas of its input and output."""

    name: str
    description: str
    input: type[inputs.Input]
    output: Any
    call: Callable[[View, Any], Mapping[str, Any]]
    read_only: bool = True
    asks_models: bool = False
    """Whether it may call a model, which may cost money: an embedder, rewriter, reranker or answerer at an endpoint."""
    unused: frozenset[str] = frozenset()
    """Inputs that have no use under the configuration. They are accepted, but schemas do not offer them."""

    offered: Sequence[str] = ()
    """Inputs that a brief schema offers, in this order; () for a full schema. The others are accepted all the same."""

    outputs: Sequence[str] = ()
    """Outputs that a brief schema describes; () for a full schema. Results can have the others too."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of inputs, where they differ from those of the library."""

    keep_empty: bool = False
    """Whether results keep their empty fields even in a compact session."""

    def input_schema(self, ref_template: str = DEFAULT_REF_TEMPLATE) -> dict[str, Any]:
        """Return the JSON schema of the inputs that are offered and have a use, with the defaults."""
        schema = without_properties(self.input.model_json_schema(ref_template=ref_template), self.unused)
        known = schema["properties"]
        schema["properties"] = {name: known[name] for name in self.offered or known if name in known}
        for name, default in self.defaults.items():
            if name in schema["properties"]:
                schema["properties"][name] = {**schema["properties"][name], "default": default}
        return schema

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Pydantic adapter of the output type, which provides its schema."""
        return TypeAdapter(self.output)


def without_properties(schema: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    """Return the JSON schema of an object without some of its properties."""
    return {**schema, "properties": {name: of for name, of in schema["properties"].items() if name not in names}}


def unused_inputs(aid: FindingAid) -> frozenset[str]:
    """Return the names of inputs that have no use, because the configuration lacks the model or data they are about."""
    claimed = [corpus.claims for corpus in aid.corpora.values() if corpus.claims]
    search = aid.search_defaults
    configured = {
        "llm": aid.answerer,
        "rewrite": search.rewrite,
        "rerank": search.rerank,
        "select": search.select,
        "summarizer": aid.context_defaults.summarizer,
        "previous": aid.context_defaults.summarizer,
        "tiers": claimed,
        "use_summaries": any(claiming.nodes for claiming in claimed),
        "summary_top_k": any(claiming.nodes for claiming in claimed),
    }
    return frozenset(name for name, there in configured.items() if not there)


def _search(view: View, asked: inputs.SearchInput) -> dict[str, Any]:
    recency = Recency(asked.recency.field, asked.recency.half_life) if asked.recency else None
    given = {**_arguments(asked, "detail", "cursor"), "recency": recency, "offset": position(view, asked)}
    hits = view.aid.search(**given)
    return page_of_hits(view, asked, hits)


def _answer(view: View, asked: inputs.AnswerInput) -> dict[str, Any]:
    return view.aid.answer(**_arguments(asked)).to_dict()


def _context(view: View, asked: inputs.ContextInput) -> dict[str, Any]:
    pack = view.aid.context(**_arguments(asked, "details"), as_result=not asked.details)
    return pack.to_dict() if asked.details else pack.to_result()


def _show(view: View, asked: inputs.ShowInput) -> dict[str, Any]:
    aid = view.aid
    how: dict[str, Any] = {"artifact_version": asked.artifact_version, "fresh": asked.fresh}
    place = asked.offset is not None or asked.span is not None
    if asked.level == "records":
        return aid.show(asked.id, asked.corpus, **how).to_dict()
    if asked.level or (asked.file is not None and not place):
        return aid.disclose(asked.id, asked.level or "files", asked.corpus, asked.file, **how).to_dict()
    within = [asked.corpus] if asked.corpus is not None else None
    claim = None if place else aid.passages(asked.id, within, fresh=asked.fresh)
    if claim:
        return claim.to_dict()
    span = (asked.span[0], asked.span[1]) if asked.span else None
    part = aid.read(asked.id, asked.corpus, file=asked.file, offset=asked.offset, span=span, chars=asked.chars, **how)
    if place and part.artifact_id.endswith(f"/{asked.id}"):  # a place is of one text, and not of one with a like name
        raise NotFoundError(f"no published artifact {brief(asked.id)}: pass the id and the corpus of a result")
    return with_next_call(part.to_dict())


def _neighbours(view: View, asked: inputs.NeighboursInput) -> dict[str, Any]:
    aid, kinds, corpus = view.aid, asked.kinds, asked.corpus
    if asked.id is None:
        most = aid.most_referenced(asked.k, corpora=None if corpus is None else [corpus], kinds=kinds)
        return {"neighbours": [], "referenced": [each.to_dict() for each in most]}
    found = aid.neighbours(asked.id, corpus, kinds=kinds, reverse=asked.reverse)
    return {"neighbours": [each.to_dict() for each in found], "referenced": []}


def _why(view: View, asked: inputs.WhyInput) -> dict[str, Any]:
    links = view.aid.why(asked.id, asked.corpora, places=not view.elsewhere)
    return {"links": [link.to_dict() for link in links]}


def _impact(view: View, asked: inputs.ImpactInput) -> dict[str, Any]:
    return view.aid.impact(asked.id, asked.corpus).to_dict()


def _corpora(view: View, asked: inputs.CorporaInput) -> dict[str, Any]:
    aid = view.aid
    fields, kinds = aid.fields(asked.corpora), aid.searcher.read(lambda reader: reader.kinds)
    listed = [
        {
            "corpus": corpus,
            "claims": aid.corpora[corpus].claims is not None,
            "surfaces": sorted(kinds.get(corpus, ())),
            "fields": [field.to_dict() for field in known],
        }
        for corpus, known in fields.items()
    ]
    return {"corpora": listed, "columns": FILTER_COLUMNS, "llm": aid.answerer.model if aid.answerer else None}


def _browse(view: View, asked: inputs.BrowseInput) -> dict[str, Any]:
    return view.aid.browse(**_arguments(asked)).to_dict()


def _status(view: View, asked: inputs.CorporaInput) -> dict[str, Any]:
    told = [status.to_dict() for status in view.aid.status(asked.corpora)]
    for each in told:
        del each["vector_index"]  # describes the whole index, including corpora that this view does not contain
    caller = view.aid.store.caller
    published = published_version(view)
    return {"published": published, "dagster": view.dagster, "caller": str(caller or ""), "corpora": told}


def published_version(view: View) -> dict[str, Any] | None:
    """Return the version that readers see and its time; None before the first run."""
    try:
        versions = view.aid.versions()
    except StoreError:  # before the first run
        return None
    return next(({"version": v.version, "written": v.written} for v in versions if v.served), None)


def _propose(view: View, asked: inputs.ProposalInput) -> dict[str, Any]:
    said = _arguments(asked, "reason")
    claims = view.aid.claims.propose(ProposedClaim(**said), actor=view.actor, reason=asked.reason)
    return claims[0].to_dict()


def _arguments(asked: inputs.Input, *apart: str) -> dict[str, Any]:
    """Return the fields of an input as keyword arguments for the library, except those in `apart`."""
    apart = (*apart, "max_tokens")
    return {name: getattr(asked, name) for name in type(asked).model_fields if name not in apart}


CAPABILITIES: Sequence[Capability] = (
    Capability(
        "search",
        "Search the published index by meaning and by words; each hit has the artifact, its text and the span."
        " next_cursor leads to the next page.",
        inputs.SearchInput,
        outputs.SearchOutput,
        _search,
        asks_models=True,
    ),
    Capability(
        "answer",
        "Answer a question from the indexed texts; every sentence cites claims, or quotes of passages. Words that"
        " neither covers are listed in gaps. meta.note says if the answer is weak or empty; then passages lists what a"
        " search finds.",
        inputs.AnswerInput,
        outputs.AnswerOutput,
        _answer,
        asks_models=True,
    ),
    Capability(
        "context",
        "Assemble the texts that answer a query; each piece has a citation. The whole result is within the budget.",
        inputs.ContextInput,
        outputs.ContextOutput,
        _context,
        asks_models=True,
    ),
    Capability(
        "show",
        "Read an artifact by its id, or from a record by the id of a hit: an outline with offsets, and a part of the"
        " text. The call in next reads on; offset or span lead elsewhere. The id of a claim opens the passages that"
        " state it.",
        inputs.ShowInput,
        outputs.ShowOutput,
        _show,
    ),
    Capability(
        "neighbours",
        "List the artifacts that an artifact refers to by links and dependencies, or that refer to it; without an id,"
        " the artifacts most referred to.",
        inputs.NeighboursInput,
        outputs.NeighboursOutput,
        _neighbours,
    ),
    Capability(
        "why",
        "Trace a claim, summary node, record or artifact to its source, link by link; every link is verified.",
        inputs.WhyInput,
        outputs.WhyOutput,
        _why,
    ),
    Capability(
        "impact",
        "List everything that depends on an artifact: records, claims, decisions, summary nodes, and references to it.",
        inputs.ImpactInput,
        Impact,
        _impact,
    ),
    Capability(
        "corpora",
        "List the corpora that can be searched, with their surface kinds and the fields that filters can name; llm is"
        " the model that writes answers.",
        inputs.CorporaInput,
        outputs.CorporaOutput,
        _corpora,
    ),
    Capability(
        "browse",
        "List the artifacts, newest first, and count them by corpus, kind of file (suffix) and folder. To search some"
        " of them only, use where: ends_with(artifact_id, '.md'), starts_with(artifact_id, 'docs/').",
        inputs.BrowseInput,
        Contents,
        _browse,
    ),
    Capability(
        "status",
        "Report the published version and its time, and the counts and failures of each corpus.",
        inputs.CorporaInput,
        outputs.StatusOutput,
        _status,
    ),
    Capability(
        "propose_claim",
        "Propose a claim that an artifact states, with the supporting passage; a person then approves or rejects it.",
        inputs.ProposalInput,
        outputs.ProposalOutput,
        _propose,
        read_only=False,
    ),
)
