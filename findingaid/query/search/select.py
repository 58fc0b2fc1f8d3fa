"""Selectors, which cut the hits to those that are enough: rules over scores, or a model that reads the hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict

from findingaid.errors import ConfigError, ModelError
from findingaid.llm.chat import Chat, ChatParameters
from findingaid.llm.prompts import as_data, load_template
from findingaid.model import Hit
from findingaid.protocols import Selection, Selector
from findingaid.query.search.hits import Hits
from findingaid.query.search.user_code import component_name, convert_exceptions
from findingaid.registry import checked

if TYPE_CHECKING:
    from findingaid.query.search.reader import Reader
    from findingaid.query.search.request import Request

SelectFunction = Callable[[str, Sequence[Hit]], Sequence[Hit]]


def select(query: str, hits: Sequence[Hit], selector: Selector | SelectFunction) -> tuple[list[Hit], str]:
    """Return the selected hits in their original order, and the reason for stopping there.

    A selector can be a function that takes the query and the hits and returns some of these hits. Raises ModelError if
    a selector fails, or returns a hit that it was not offered.
    """
    if not hits:
        return [], "nothing was found"
    with convert_exceptions(component_name("selector", selector)):
        if isinstance(selector, Selector):
            selection = selector.select(query, hits)
        else:
            selection = _by_function(selector, query, hits)
    if wrong := [place for place in selection.places if place not in range(len(hits))]:
        raise ModelError(
            f"{component_name('selector', selector)}: chose {wrong[0]!r}, of {len(hits)} hits offered", "parse"
        )
    return [hits[place] for place in sorted(set(selection.places))], selection.reason


def _by_function(function: SelectFunction, query: str, hits: Sequence[Hit]) -> Selection:
    places = {hit.record_id: place for place, hit in enumerate(hits)}
    chosen = [hit.record_id for hit in function(query, hits)]
    if wrong := [record for record in chosen if record not in places]:
        raise ModelError(
            f"{component_name('selector', function)}: returned record {wrong[0]}, which was not offered", "parse"
        )
    return Selection(
        [places[record] for record in chosen], f"{component_name('selector', function)} chose {len(set(chosen))}"
    )


@dataclass(frozen=True)
class SelectionStep:
    """Search step that drops the hits that the selector does not choose."""

    selector: Selector | SelectFunction
    query: str

    def process(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        chosen, reason = select(self.query, hits, self.selector)
        return Hits(chosen, enough=reason)


@checked
@dataclass(frozen=True)
class Conservative:
    """Selector of the best hit and those that score nearly as well: at least `share` of its score, at most `most` hits.

    A few good hits serve an agent better than many that it must choose from. If the best score is not above 0, shares
    are meaningless, and only the best hit is kept.
    """

    share: Annotated[float, Gt(0), Le(1)] = 0.9
    most: Annotated[int, Gt(0)] = 3

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        best = hits[0].score
        if best <= 0:
            return Selection([0], f"the best score, {best:.3g}, is not above 0, so none can be near it")
        near = sum(1 for _ in takewhile(lambda hit: hit.score >= self.share * best, hits))
        if near > self.most:
            return Selection(range(self.most), f"the {self.most} best of {near} that score {self.share:g} of the best")
        return _select_first(near, hits, f"scores less than {self.share:g} of the best, {best:.3g}")


@checked
@dataclass(frozen=True)
class Gap:
    """Selector of all hits before the largest drop from one score to the next, at least `fewest`.

    If no score is below the one before it, all hits are kept.
    """

    fewest: Annotated[int, Gt(0)] = 1

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        drops = [before.score - after.score for before, after in pairwise(hits)][self.fewest - 1 :]
        if not drops or max(drops) <= 0:
            return Selection(range(len(hits)), "no score is below the one before")
        kept = drops.index(max(drops)) + self.fewest
        return _select_first(kept, hits, f"is {max(drops):.3g} below the one before, the largest drop")


@checked
@dataclass(frozen=True)
class Threshold:
    """Selector of hits that score `at_least` this much, or at least this `share` of the best score; possibly none.

    Modes and rerankers score on different scales. A share needs scores above 0: otherwise only the best hit is kept.
    Raises ConfigError unless exactly one of the two is given.
    """

    at_least: float | None = None
    share: Annotated[float, Gt(0), Le(1)] | None = None

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.share is None):
            raise ConfigError("give either at_least, a score, or share, of the best score")

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        best = hits[0].score
        least = self.at_least if self.share is None else self.share * best
        if least is None or (self.share is not None and best <= 0):
            return Selection([0], f"the best score, {best:.3g}, is not above 0, so that no share of it can be taken")
        kept = sum(1 for _ in takewhile(lambda hit: hit.score >= least, hits))
        return _select_first(kept, hits, f"scores less than {least:.3g}")


def _select_first(kept: int, hits: Sequence[Hit], cut: str) -> Selection:
    """Select the first `kept` hits; the reason states `cut` of the next hit."""
    if kept == len(hits):
        return Selection(range(kept), f"none {cut}")
    return Selection(range(kept), f"hit {kept + 1} scores {hits[kept].score:.3g}: it {cut}")


class _Chosen(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title="Chosen")
    chosen: list[int]
    reason: str


@checked
@dataclass(frozen=True, kw_only=True)
class OpenAISelector(ChatParameters):
    """Selector that asks a chat model which hits are enough, at an OpenAI-compatible endpoint.

    The model sees the first `offered` hits, and the first `characters` characters of each. Further hits are dropped.
    Numbers in its answer that match no hit are ignored and named in the reason. Raises ModelError if all numbers are
    such.
    """

    offered: Annotated[int, Gt(0)] = 20
    characters: Annotated[int, Ge(100)] = 2_000

    @cached_property
    def _chat(self) -> Chat[_Chosen]:
        return self.chat(_Chosen)

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        shown = hits[: self.offered]
        texts = ["Query:\n" + as_data(query)]
        texts += [f"Result {n}:\n{as_data(hit.text[: self.characters])}" for n, hit in enumerate(shown, 1)]
        answer = self._chat.ask(load_template("select"), "\n\n".join(texts))
        invented = [n for n in answer.chosen if not 1 <= n <= len(shown)]
        places = [n - 1 for n in answer.chosen if n not in invented]
        if invented and not places:
            raise self._chat.error(f"chose {', '.join(map(str, invented))} of {len(shown)} results offered")
        reason = " ".join(answer.reason.split())
        told = f" (it also chose {', '.join(map(str, invented))}, not offered)" if invented else ""
        return Selection(places, f"{self.model}: {reason}{told}")
