"""How many hits are enough: rules over their scores, or a model that reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict

from findingaid.errors import ConfigError, ModelError
from findingaid.model import Hit, Selection, Selector
from findingaid.query.called import calling, named
from findingaid.query.hits import Hits
from findingaid.query.service import ChatService, as_data, prompt
from findingaid.registry import STRICT

if TYPE_CHECKING:
    from findingaid.query.reader import Reader
    from findingaid.query.request import Request

Select = Callable[[str, Sequence[Hit]], Sequence[Hit]]


def select(query: str, hits: Sequence[Hit], selector: Selector | Select) -> tuple[list[Hit], str]:
    """Those of `hits` that are enough, in their order, and why no more.

    A function takes query and hits, and gives some of these. Raises ModelError where a selector fails, or gives what
    it was not offered.
    """
    if not hits:
        return [], "nothing was found"
    with calling(named("selector", selector)):
        if isinstance(selector, Selector):
            selection = selector.select(query, hits)
        else:
            selection = _by_function(selector, query, hits)
    if wrong := [place for place in selection.places if place not in range(len(hits))]:
        raise ModelError(f"{named('selector', selector)}: chose {wrong[0]!r}, of {len(hits)} hits offered", "parse")
    return [hits[place] for place in sorted(set(selection.places))], selection.reason


def _by_function(function: Select, query: str, hits: Sequence[Hit]) -> Selection:
    places = {hit.record_id: place for place, hit in enumerate(hits)}
    chosen = [hit.record_id for hit in function(query, hits)]
    if wrong := [record for record in chosen if record not in places]:
        raise ModelError(f"{named('selector', function)}: gave record {wrong[0]}, which was not offered", "parse")
    return Selection([places[record] for record in chosen], f"{named('selector', function)} chose {len(set(chosen))}")


@dataclass(frozen=True)
class Selecting:
    """The step of a search that leaves out what is not needed."""

    selector: Selector | Select
    query: str

    def after(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        chosen, reason = select(self.query, hits, self.selector)
        return Hits(chosen, enough=reason)


@dataclass(frozen=True)
class Conservative:
    """The best hit, and those that score nearly as well: at least `share` of its score, `most` at most.

    Few good hits serve an agent better than many, among which it must choose. Where the best score is not above 0
    shares mean nothing, and it stays alone.
    """

    share: Annotated[float, Gt(0), Le(1)] = 0.9
    most: Annotated[int, Gt(0)] = 3
    __pydantic_config__: ClassVar = STRICT

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        best = hits[0].score
        if best <= 0:
            return Selection([0], f"the best score, {best:.3g}, is not above 0, so none can be near it")
        near = sum(1 for _ in takewhile(lambda hit: hit.score >= self.share * best, hits))
        if near > self.most:
            return Selection(range(self.most), f"the {self.most} best of {near} that score {self.share:g} of the best")
        return _first(near, hits, f"scores less than {self.share:g} of the best, {best:.3g}")


@dataclass(frozen=True)
class Gap:
    """Everything before the largest drop from one score to the next, at least `fewest`.

    Equal scores have no drop between them: all are kept.
    """

    fewest: Annotated[int, Gt(0)] = 1
    __pydantic_config__: ClassVar = STRICT

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        drops = [before.score - after.score for before, after in pairwise(hits)][self.fewest - 1 :]
        if not drops or max(drops) <= 0:
            return Selection(range(len(hits)), "no score is below the one before")
        kept = drops.index(max(drops)) + self.fewest
        return _first(kept, hits, f"is {max(drops):.3g} below the one before, the largest drop")


@dataclass(frozen=True)
class Threshold:
    """Hits that score `at_least` so much, or at least a `share` of the best score; none where none does.

    Scores of different modes and rerankers are on different scales; a share is of use where they are above 0.
    """

    at_least: float | None = None
    share: Annotated[float, Gt(0), Le(1)] | None = None
    __pydantic_config__: ClassVar = STRICT

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.share is None):
            raise ConfigError("give either at_least, a score, or share, of the best score")

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        best = hits[0].score
        least = self.at_least if self.share is None else self.share * best
        if least is None or (self.share is not None and best <= 0):
            return Selection([0], f"the best score, {best:.3g}, is not above 0, so that no share of it can be taken")
        kept = sum(1 for _ in takewhile(lambda hit: hit.score >= least, hits))
        return _first(kept, hits, f"scores less than {least:.3g}")


def _first(kept: int, hits: Sequence[Hit], cut: str) -> Selection:
    """The first hits, and what is wrong with the next."""
    if kept == len(hits):
        return Selection(range(kept), f"none {cut}")
    return Selection(range(kept), f"hit {kept + 1} scores {hits[kept].score:.3g}: it {cut}")


class _Chosen(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title="Chosen")
    chosen: list[int]
    reason: str


@dataclass(frozen=True, kw_only=True)
class OpenAISelector(ChatService):
    """Asks a chat model which hits are enough, at an OpenAI-compatible endpoint.

    It is shown the first `offered` hits, the first `characters` of each; others are left out. A number that stands
    for none of these is left out and told of; an answer of such numbers alone is an error.
    """

    offered: Annotated[int, Gt(0)] = 20
    characters: Annotated[int, Ge(100)] = 2_000
    __pydantic_config__: ClassVar = STRICT

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        shown = hits[: self.offered]
        texts = ["Query:\n" + as_data(query)]
        texts += [f"Result {n}:\n{as_data(hit.text[: self.characters])}" for n, hit in enumerate(shown, 1)]
        answer = self.ask(prompt("select"), "\n\n".join(texts), _Chosen)
        invented = [n for n in answer.chosen if not 1 <= n <= len(shown)]
        places = [n - 1 for n in answer.chosen if n not in invented]
        if invented and not places:
            raise self.error(f"chose {', '.join(map(str, invented))} of {len(shown)} results offered")
        reason = " ".join(answer.reason.split())
        told = f" (it also chose {', '.join(map(str, invented))}, not offered)" if invented else ""
        return Selection(places, f"{self.model}: {reason}{told}")
