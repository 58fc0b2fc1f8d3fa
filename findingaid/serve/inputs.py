"""Inputs of the capabilities. Names and defaults are those of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from findingaid.config.settings import MIN_RESULT_TOKENS
from findingaid.model import Mode
from findingaid.query.context.rendering import Form
from findingaid.query.lookup.reading import CHARS
from findingaid.query.search.options import DESCRIPTIONS, FreshnessOption

LARGEST = 2**53
"""Largest integer. A larger number is refused where an integer belongs: other programs that read JSON round it."""

MOST = 1_000
"""Maximum number of hits of one page. To get all records, read the table."""

TierName = Literal["approved", "policy", "unreviewed"]
RouteName = Annotated[
    str,
    StringConstraints(pattern="^(flat|auto|neighbours|boost|collapsed|gate|(boost|collapsed|gate):[1-9][0-9]{0,3})$"),
]
"""Routes that ship with findingaid. An import path would run code chosen by the caller."""

Corpora = Annotated[list[str] | None, Field(description="Only these corpora. Default: all served corpora.")]
Corpus = Annotated[str | None, Field(description="Corpus, if the id is in more than one.")]
Id = Annotated[str, Field(description="Id, as returned by a search.")]
Fresh = Annotated[FreshnessOption, Field(description=DESCRIPTIONS["fresh"])]
MaxTokens = Annotated[
    int | None,
    Field(
        ge=MIN_RESULT_TOKENS,
        description="Most tokens of the result, at 3.5 bytes each. Longer ones are cut and say how to read on.",
    ),
]
Where = Annotated[
    str | None,
    Field(description="Filter: an SQL condition on the fields that `corpora` lists, e.g. title LIKE 'lance%'."),
]


class Input(BaseModel):
    """Base of all inputs. Types are not converted, and unknown fields are errors, as are NaN and infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def option(name: str, default: Any = None, **limits: Any) -> Any:
    """Return the field for an option of a search, with its meaning."""
    return Field(default=default, description=DESCRIPTIONS[name], **limits)


def without_unused(given: Mapping[str, Any], input_: type[Input]) -> dict[str, Any]:
    """Return given values without the optional ones that are empty: null, "", and [] or {} where a list or object fits.

    Models and forms fill inputs that they do not use. A text of spaces is empty, and lists of optional inputs lose what
    is. A number without a fraction is an integer, as in a JSON schema: some models write 5.0.
    """
    empty = _empty_values(input_)
    filled = {name: _filled(value) if name in empty else value for name, value in given.items()}
    return {name: value for name, value in filled.items() if value not in empty.get(name, ())}


def read_lists(given: Mapping[str, Any], input_: type[Input]) -> dict[str, Any]:
    """Return given values with each text in the place of a list or an object read as JSON, or as its only item.

    Some clients of MCP pass lists and objects on as models write them.
    """
    kinds = _kinds(input_)
    return {name: _read_list(value, kinds.get(name, set())) for name, value in given.items()}


def _read_list(value: Any, kinds: set[str]) -> Any:
    if not isinstance(value, str) or "string" in kinds or not kinds & {"array", "object"}:
        return value
    with suppress(orjson.JSONDecodeError):
        meant = orjson.loads(value)
        if meant is None or isinstance(meant, list | dict):
            return meant
    return [value] if "array" in kinds else value


def _filled(value: Any) -> Any:
    if isinstance(value, list):
        return [each for each in map(_filled, value) if each not in (None, "")]
    if isinstance(value, str) and not value.strip():
        return ""
    if isinstance(value, int | float) and abs(value) > LARGEST:
        return float(str(value))  # refused as an integer; float(value) itself raises for one of 400 digits
    return int(value) if isinstance(value, float) and value.is_integer() else value


@cache
def _empty_values(input_: type[Input]) -> Mapping[str, Sequence[Any]]:
    """Map the name of each optional input to the values that count as not given."""
    kinds = _kinds(input_)
    return {
        name: (None, "", *(empty for kind, empty in (("array", []), ("object", {})) if kind in kinds[name]))
        for name, field in input_.model_fields.items()
        if not field.is_required()
    }


@cache
def _kinds(input_: type[Input]) -> Mapping[str, set[str]]:
    """Map the name of each input to the kinds of JSON values that it takes."""
    properties = input_.model_json_schema()["properties"]
    return {
        name: {each.get("type", "object" if "$ref" in each else "") for each in schema.get("anyOf", [schema])}
        for name, schema in properties.items()
    }


class RecencyInput(Input):
    """Preference for newer records: a score is halved for every `half_life` days of age."""

    field: str = Field(description="Field that holds times.")
    half_life: float = Field(description="Half-life in days.")


class RetrievalInput(Input):
    """Input that a search and a context pack share."""

    query: str | list[str] = Field(description="Query to search for; several queries are ranked together.")
    corpora: Corpora = None
    mode: Mode = option("mode", "hybrid")
    where: Where = None
    surfaces: list[str] | None = option("surfaces")
    tiers: list[TierName] | None = option("tiers")
    route: RouteName | None = option("route")
    expand: int | Literal["section", "artifact"] | None = option("expand")
    rewrite: Literal[False] | None = Field(default=None, description="false: do not use the configured rewriter.")
    rerank: Literal[False] | None = Field(default=None, description="false: do not use the configured reranker.")
    select: Literal[False] | None = Field(
        default=None, description="false: do not use the configured selector, return all k hits."
    )
    use_summaries: bool = option("use_summaries", default=False)
    summary_top_k: int = option("summary_top_k", 3, ge=0, le=MOST)
    fresh: Fresh = False


class SearchInput(RetrievalInput):
    """Input of a search."""

    k: int = Field(default=10, le=MOST, description="Number of hits.")
    offset: int = option("offset", 0)
    weights: dict[str, float] | None = option("weights")
    blend: float | Literal["rrf"] | None = option("blend")
    per_artifact: bool = option("per_artifact", default=False)
    recency: RecencyInput | None = None
    explain: bool = option("explain", default=False)
    detail: Literal["id", "snippet", "full"] = Field(
        default="full",
        description="id: only ids, titles and URLs; snippet: also the words around the match; full: whole records.",
    )
    cursor: str | None = Field(
        default=None, description="next_cursor of the page before, with the same query and filters."
    )
    max_tokens: MaxTokens = None


class AnswerInput(Input):
    """Input of an answer."""

    query: str = Field(description="Question to answer.")
    depth: int = Field(default=3, description="Maximum number of claims and passages that the answer cites.")
    max_chars: int = Field(default=4000, description="Maximum characters of the answer, with citations.")
    llm: bool = Field(
        default=False, description="Let the configured model write the answer; each sentence is verified."
    )
    corpora: Corpora = None
    where: Where = None
    tiers: list[TierName] | None = Field(default=None, description="Cite only claims of these tiers.")
    fresh: Fresh = False
    max_tokens: MaxTokens = None


class ContextInput(RetrievalInput):
    """Input of a context pack."""

    budget_tokens: int = Field(default=2000, description="Maximum size of the whole result, in tokens.")
    k: int = Field(default=20, le=MOST, description="Number of hits to consider.")
    form: Form = Field(default="text", description="Form of the rendered pack.")
    pinned: list[str] = Field(default=[], description="Texts to put first.")
    sessions: list[str] = Field(default=[], description="Sessions whose anchored summaries come next, by id.")
    summaries: bool = Field(default=True, description="Include the summaries of the artifacts that have hits.")
    summarizer: bool | None = Field(
        default=None, description="Whether the configured summarizer writes a digest of the pieces that do not fit."
    )
    previous: dict[str, Any] | None = Field(
        default=None,
        description="digest of the pack before this one, as returned with details, or an anchored summary: it is"
        " continued.",
    )
    details: bool = Field(
        default=False,
        description="Also return the pieces, dropped ones too, and the digest. Only `rendered` is then within the"
        " budget.",
    )


class ShowInput(Input):
    """Input of `show`: an artifact, a record or a claim."""

    id: Id
    corpus: Corpus = None
    offset: int | None = Field(default=None, description="Read on from here: next_offset of the part before.")
    span: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="Read from this start to this end, such as the span of a hit."
    )
    artifact_version: str | None = Field(
        default=None, description="Version of which offset or span are, as a result has it; another one is refused."
    )
    chars: int = Field(default=CHARS, ge=1, description="Maximum characters of text.")
    level: Literal["records", "metadata", "body", "files"] | None = Field(
        default=None, description="Return the artifact's records, metadata, whole body or list of files instead."
    )
    file: str | None = Field(default=None, description="Return the text of one of its files instead.")
    fresh: Fresh = False
    max_tokens: MaxTokens = None


class NeighboursInput(Input):
    """Input of `neighbours`: an artifact, or none."""

    id: str | None = Field(
        default=None, description="Artifact id; without one, return the artifacts that most others refer to."
    )
    corpus: Corpus = None
    kinds: list[str] = Field(default=[], description="Only edges of these kinds. Default: all.")
    reverse: bool = Field(default=False, description="Return the artifacts that refer to it instead.")
    k: int = Field(default=10, le=MOST, description="Number of artifacts, without an id.")
    max_tokens: MaxTokens = None


class WhyInput(Input):
    """Input of `why`: a claim, summary node, record or artifact."""

    id: Id
    corpora: Corpora = None
    max_tokens: MaxTokens = None


class ImpactInput(Input):
    """Input of `impact`: an artifact."""

    id: Id
    corpus: Corpus = None
    max_tokens: MaxTokens = None


class CorporaInput(Input):
    """Input of `corpora` and `status`: some corpora, or all."""

    corpora: Corpora = None
    max_tokens: MaxTokens = None


class BrowseInput(Input):
    """Input of `browse`: the filters of a search, and a page of the list."""

    corpora: Corpora = None
    where: Where = None
    suffixes: list[str] = Field(default=[], description="Only artifacts whose ids end so, such as .md or .MD.")
    folder: str = Field(default="", description="Only artifacts whose ids begin so, such as docs/.")
    k: int = Field(default=20, ge=0, le=MOST, description="Number of artifacts to list.")
    offset: int = Field(default=0, ge=0, description="Number of newer artifacts to leave out.")
    max_tokens: MaxTokens = None


class ProposalInput(Input):
    """Input of `propose_claim`: a statement that an artifact makes."""

    corpus: str = Field(description="Corpus of the artifact.")
    artifact_id: str = Field(description="Id of the artifact.")
    text: str = Field(description="Statement to propose.")
    quote: str = Field(default="", description="Passage of the artifact that supports it, word for word.")
    type: str = Field(default="fact", description="Kind of statement.")
    entities: list[str] = Field(default=[], description="People, things and topics that it is about.")
    reason: str = Field(default="", description="Reason of the proposal, recorded with it.")
