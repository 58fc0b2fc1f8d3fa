"""Pages of hits as clients receive them: the level of detail, the URLs, and the cursor of the next page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from findingaid.errors import QueryError
from findingaid.model import Hit
from findingaid.query.search.hits import Hits
from findingaid.query.search.summary_claims import SUMMARIZES
from findingaid.serve.inputs import SearchInput
from findingaid.serve.truncation import count_fitting
from findingaid.serve.view import View
from findingaid.store.tables import identity
from findingaid.text.excerpts import excerpt

SNIPPET_CHARS = 300

PAGING = frozenset({"cursor", "offset", "k", "detail", "max_tokens"})
"""Inputs that may differ from page to page of one search."""

CURSOR = re.compile(r"([0-9]{1,9})\.([0-9a-f]{8})\.([0-9a-f]{8})")


def position(view: View, asked: SearchInput) -> int:
    """Return the number of hits before the page. Raises QueryError for a cursor of another search, or version."""
    if asked.cursor is None:
        return asked.offset
    if asked.offset:
        raise QueryError("cursor and offset: give only one of them")
    parsed = CURSOR.fullmatch(asked.cursor)
    if parsed is None or parsed[3] != _digest(asked):
        raise QueryError(
            "cursor: not of this search: pass the next_cursor of the page before, with the same query and filters"
        )
    if parsed[2] != _version(view):
        raise QueryError(
            "cursor: another version of the index is published since the page before, in which other hits may come"
            " before this one: search again without it"
        )
    return int(parsed[1])


def _cursor(view: View, asked: SearchInput, start: int) -> str:
    return f"{start}.{_version(view)}.{_digest(asked)}"


def _version(view: View) -> str:
    return view.aid.searcher.read(lambda reader: identity(reader.records)[:8])


def _digest(asked: SearchInput) -> str:
    """Return a digest of the inputs that decide which hits there are, and in which order."""
    said = orjson.dumps(asked.model_dump(exclude=set(PAGING)), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(said).hexdigest()[:8]


def page_of_hits(view: View, asked: SearchInput, hits: Hits) -> dict[str, Any]:
    """Return a page of hits within the budget of tokens; `next_cursor` continues after its last hit."""
    start, full = position(view, asked), _ranked(hits) == asked.k and not hits.enough
    page: dict[str, Any] = {
        "hits": _shown(view, asked, hits),
        "enough": hits.enough,
        "queries": hits.queries,
        "fresh_seconds": hits.fresh_seconds,
        "next_cursor": _cursor(view, asked, start + _ranked(hits)),
    }
    fitting = count_fitting(page, "hits", asked.max_tokens) if asked.max_tokens else len(hits)
    fitting = _before_node(hits, fitting) or fitting
    if fitting < len(hits):
        return {
            **page,
            "hits": page["hits"][:fitting],
            "next_cursor": _cursor(view, asked, start + _ranked(hits[:fitting])),
        }
    return page if full else {**page, "next_cursor": ""}


def _ranked(hits: Sequence[Hit]) -> int:
    """Count the hits of the ranking, without the claims that follow their summary node."""
    return sum(hit.route != SUMMARIZES for hit in hits)


def _before_node(hits: Sequence[Hit], end: int) -> int:
    """Return where to end a page instead, if its end would cut a summary node off from its claims."""
    while 0 < end < len(hits) and hits[end].route == SUMMARIZES:
        end -= 1
    return end


def _shown(view: View, asked: SearchInput, hits: Hits) -> list[dict[str, Any]]:
    urls = {key: view.url_of(*key) for key in {(hit.corpus, hit.artifact_id) for hit in hits}}
    if asked.detail == "full":
        return [{**hit.to_dict(), "url": _url(hit, urls)} for hit in hits]
    titles = view.aid.titles(urls)
    brief = [_brief(hit, titles.get((hit.corpus, hit.artifact_id), ""), urls) for hit in hits]
    if asked.detail == "id":
        return brief
    return [{**each, **_snippet(view, hit, hits)} for each, hit in zip(brief, hits, strict=True)]


def _brief(hit: Hit, title: str, urls: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    return {
        "record_id": hit.record_id,
        "artifact_id": hit.artifact_id,
        "corpus": hit.corpus,
        "title": title or hit.artifact_id,
        "url": _url(hit, urls),
        "score": round(hit.score, 4),
        "place": hit.place,
        "span": hit.span,
        "artifact_version": hit.artifact_version,
    }


def _url(hit: Hit, urls: Mapping[tuple[str, str], str]) -> str:
    """Return the URL of a hit. That of a PDF opens the page, as browsers and viewers take it."""
    url, page = urls[hit.corpus, hit.artifact_id], hit.metadata.get("page")
    return f"{url}#page={page}" if page and url.partition("?")[0].lower().endswith(".pdf") and "#" not in url else url


def _snippet(view: View, hit: Hit, hits: Hits) -> dict[str, Any]:
    return {
        "kind": hit.surface_kind,
        "snippet": excerpt(hit.text, hits.queries, SNIPPET_CHARS, view.aid.store.lexical),
        "weak": hit.weak,
        "fresh": hit.fresh,
        "fresh_note": hit.fresh_note,
    }
