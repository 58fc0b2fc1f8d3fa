"""What each capability is asked with. The names and defaults are those of the library."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from findingaid.model import Mode
from findingaid.query.disclose import Level
from findingaid.query.forms import Form

MOST = 1_000
"""Hits of one page; whoever wants all records reads the table."""

TierName = Literal["approved", "policy", "unreviewed"]
RouteName = Literal["flat", "boost", "collapsed", "gate", "neighbours"]
"""Of the routes those that ship: an import path would run code of whoever asks."""

Corpora = Annotated[list[str] | None, Field(description="Only these corpora. Default: all that are served.")]
Corpus = Annotated[str | None, Field(description="The corpus, where the id is in several.")]
Id = Annotated[str, Field(description="An id, as a search gives it.")]
Where = Annotated[
    str | None, Field(description="A filter: SQL over the fields that `corpora` lists, e.g. title LIKE 'lance%'.")
]


class Input(BaseModel):
    """What all inputs have in common: nothing is guessed, and nothing unknown is ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Younger(Input):
    """What is younger counts more: a score is halved for so many days of age."""

    field: str = Field(description="A field that holds times.")
    half_life: float = Field(description="Days.")


class Looking(Input):
    """What a search and a context pack have in common."""

    query: str | list[str] = Field(description="What is looked for; several are answered together.")
    corpora: Corpora = None
    mode: Mode = Field(default="hybrid", description="How records are ranked: by meaning, by words, or both.")
    where: Where = None
    surfaces: list[str] | None = Field(default=None, description="Only these surface kinds, as `corpora` lists them.")
    tiers: list[TierName] | None = Field(default=None, description="Claims of these tiers, where claims are found.")
    route: RouteName = Field(default="flat", description="By way of summaries or edges.")
    expand: int | Literal["section", "artifact"] | None = Field(
        default=None, description="Each hit with so many neighbours, its section or its artifact."
    )
    rewrite: Literal[False] | None = Field(default=None, description="false: not in other words, though configured.")
    rerank: Literal[False] | None = Field(default=None, description="false: not reranked, though configured.")
    select: Literal[False] | None = Field(default=None, description="false: all k, though a selector is configured.")
    use_summaries: bool = Field(default=False, description="Find summary nodes, too, each with its best claims.")
    summary_top_k: int = Field(default=3, ge=0, le=MOST, description="Claims shown with a summary node.")


class Search(Looking):
    """A search."""

    k: int = Field(default=10, le=MOST, description="How many hits.")
    offset: int = Field(default=0, description="Leave out so many first, for the next page.")
    weights: dict[str, float] | None = Field(default=None, description="Surface kind -> what its scores count.")
    blend: float | None = Field(default=0.5, description="The share of dense in a hybrid score; null: by ranks.")
    per_artifact: bool = Field(default=False, description="Only the best record of each artifact.")
    recency: Younger | None = None
    explain: bool = Field(default=False, description="Say what each score is made of.")


class Ask(Input):
    """A question."""

    query: str = Field(description="The question.")
    depth: int = Field(default=3, description="How many claims are said, at most.")
    max_chars: int = Field(default=4000, description="Characters of the answer, citations included.")
    llm: bool = Field(default=False, description="Have the configured model write the answer; it is checked.")
    corpora: Corpora = None
    where: Where = None
    tiers: list[TierName] | None = Field(default=None, description="Cite claims of these tiers.")


class Pack(Looking):
    """A context pack."""

    budget_tokens: int = Field(default=2000, description="The most that it has, in tokens.")
    k: int = Field(default=20, le=MOST, description="How many hits are looked at.")
    form: Form = Field(default="text", description="How it is put before a model.")
    pinned: list[str] = Field(default=[], description="Texts that come first.")
    sessions: list[str] = Field(default=[], description="Sessions whose anchored summaries come next, by id.")
    summaries: bool = Field(default=True, description="With the summaries of what was found.")
    summarizer: bool | None = Field(default=None, description="Whether the configured one writes of what did not fit.")


class Show(Input):
    """An artifact, a record or a claim."""

    id: Id
    corpus: Corpus = None
    level: Level | None = Field(default=None, description="Of the artifact instead: its metadata, body, or files.")
    file: str | None = Field(default=None, description="Instead: the text of one of its files.")


class Neighbours(Input):
    """An artifact, or none."""

    id: str | None = Field(default=None, description="An artifact; without one: what most artifacts refer to.")
    corpus: Corpus = None
    kinds: list[str] = Field(default=[], description="Only edges of these kinds.")
    reverse: bool = Field(default=False, description="What refers to it, instead of what it refers to.")
    k: int = Field(default=10, le=MOST, description="Without an id: how many.")


class Why(Input):
    """Something that was found."""

    id: Id
    corpora: Corpora = None


class OfArtifact(Input):
    """An artifact."""

    id: Id
    corpus: Corpus = None


class OfCorpora(Input):
    """Some corpora, or all."""

    corpora: Corpora = None


class Proposal(Input):
    """A statement that an artifact makes."""

    corpus: str = Field(description="The artifact's corpus.")
    artifact_id: str = Field(description="The artifact.")
    text: str = Field(description="The statement.")
    quote: str = Field(default="", description="The passage of the artifact that says so, word for word.")
    type: str = Field(default="fact", description="What kind of statement it is.")
    entities: list[str] = Field(default=[], description="What it is about.")
    reason: str = Field(default="", description="Why it is proposed, kept with it.")
