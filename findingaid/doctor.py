"""Examination of everything that a run and a search need: versions, sources, models, and the store."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from findingaid import __version__
from findingaid.errors import FindingAidError, one_line
from findingaid.llm.endpoint import Endpoint
from findingaid.query.search.reader import Reader
from findingaid.store.repair import problem
from findingaid.store.tables import NOT_THERE

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.protocols import Source

PACKAGES = ("pylance", "dagster")
"""Packages whose versions have to fit the store and each other."""

LISTED = re.compile(r"\Amodels/|:latest\Z")
"""Parts of a name with which Gemini and Ollama list a model, and without which they take it, too."""

UNLISTED = "correct `model`, unless the server takes names that it does not list, as llama.cpp and Azure do"

FEW = 3
"""Problems that are named at most."""

DEEP = 4
"""Levels of components within components that are looked through for endpoints."""


@dataclass(frozen=True)
class Examined:
    """One part that was examined: what was found of it, or else its `problem`."""

    part: str
    found: str = ""
    problem: str = ""


def examine(aid: FindingAid) -> Iterator[Examined]:
    """Yield each part as it is examined. Sources are listed, tables opened, and servers asked for their models.

    No model is asked anything, so it costs nothing, and nothing is written.
    """
    yield Examined("versions", ", ".join(_versions()))
    for name, corpus in aid.corpora.items():
        yield _of(f"corpus {name}", partial(_listed, corpus.source))
    endpoints = {(each.where, model): each for each, model in _endpoints(aid, DEEP)}
    if not isinstance(getattr(aid.embedder, "endpoint", None), Endpoint):
        yield _of("embedder", lambda: f"{aid.embedder.id}, {len(aid.embedder.embed_query('a test')):,} dimensions")
    for (where, model), endpoint in endpoints.items():
        yield _of(f"model {model}", partial(_served, endpoint, model, where))
    yield _of("store", lambda: _state(aid))


def _of(part: str, found: Callable[[], str]) -> Examined:
    try:
        return Examined(part, found())
    except FindingAidError as error:
        return Examined(part, problem=str(error))
    except Exception as error:  # noqa: BLE001  # the user's own code may raise anything
        return Examined(part, problem=f"{type(error).__name__}: {one_line(error)}")


def _versions() -> Iterator[str]:
    yield f"findingaid {__version__}, Python {platform.python_version()}"
    for package in PACKAGES:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            continue


def _listed(source: Source) -> str:
    found = source.discover()
    problems = [*map(str, found.failures[:FEW]), *(f"{place} cannot be listed" for place in found.unknown[:FEW])]
    if problems or not found.listings:
        raise FindingAidError("; ".join(problems) or "lists nothing: is its place right?")
    return f"{len(found.listings):,} listed"


def _endpoints(part: Any, deep: int) -> Iterator[tuple[Endpoint, str]]:
    """Yield the endpoints of a component and of those within it, each with its model."""
    if isinstance(endpoint := getattr(part, "endpoint", None), Endpoint):
        yield endpoint, str(getattr(part, "model", ""))
    within = part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple) else ()
    if is_dataclass(part) and not isinstance(part, type):
        within = [getattr(part, field.name) for field in fields(part)]
    for each in within if deep else ():
        yield from _endpoints(each, deep - 1)


def _served(endpoint: Endpoint, model: str, where: str) -> str:
    """Return what the server of a model says of it. Raises FindingAidError if there is none, or it refuses the key."""
    import openai

    from findingaid.llm.api_errors import interpret_exception, mask_secrets

    try:
        with openai.OpenAI(**endpoint.client_options()) as client:
            names = {each.id for each in client.models.list()}
    except openai.NotFoundError:
        names = set()
    except Exception as error:  # noqa: BLE001  # the client raises many
        raise FindingAidError(mask_secrets(interpret_exception(error, where).message, endpoint.secrets)) from None
    if not names:
        return f"{where} answers; it does not list its models"
    if model not in names.union(LISTED.sub("", name) for name in names):
        raise FindingAidError(f"{where} does not list it, but {', '.join(sorted(names)[:5])}: {UNLISTED}")
    return f"{where} has it"


def _state(aid: FindingAid) -> str:
    """Return the state of the store. Raises FindingAidError if a table cannot be read, or no search can use them."""
    store = aid.store
    store.require_folder()
    problems = [found for table in store.tables if (found := problem(store, table))]
    if len(problems) == len(store.tables) and all(NOT_THERE in found for found in problems):
        return f"{store.uri}: nothing is indexed yet: run `findingaid index`"
    if problems:
        raise FindingAidError(f"{'; '.join(problems[:FEW])}: run `findingaid index`, which rebuilds what it can")
    aid.searcher.read(Reader.require_embedder)
    writer = store.written_by()
    return f"{store.uri}: every table opens" + (f", written by findingaid {writer}" if writer else "")
