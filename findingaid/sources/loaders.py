"""Documents of LangChain loaders and LlamaIndex readers as artifacts: hundreds of services, kept by others."""

from __future__ import annotations

import inspect
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from sys import stderr
from typing import Annotated, Any

from annotated_types import Gt

from findingaid.errors import RAISED, ConfigError, ReadError, SourceError, one_line
from findingaid.identity.hashes import content_hash, payload_bytes, text_hash, to_json
from findingaid.llm.api_errors import mask_secrets
from findingaid.model import Artifact, Discovery, Failure, Listing
from findingaid.registry import checked, imported
from findingaid.sources.limits import ENTRIES
from findingaid.sources.records import MAX_BYTES, Columns, as_id, columns_of, plain_value, require_size

METHODS = ("lazy_load", "lazy_load_data", "load", "load_data")
"""Methods of LangChain's BaseLoader and LlamaIndex's BaseReader that return documents; those one by one come first."""

IDS = ("id", "doc_id", "document_id", "source", "url", "link", "file_path", "path", "file_name")
"""Metadata that names a document, by the conventions of the loaders; the first that a document has counts."""

PARTS = ("page", "page_label", "row", "seq_num", "start_index")
"""Metadata that names a part of what the id names, such as a page of a file."""

RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A random UUID, which LlamaIndex gives a document that has no id of its own."""

PLAIN = (str, int, float, bool, list, type(None))

DIGITS = 8
"""Digits of the hash of a text, or of a whole document, that tell documents with the same id apart."""

REPEATS = 100_000
"""Equal documents that a loader may return, as one does for ever that asks for the same page again and again."""

BLOCKS = "; nothing is deleted from this corpus while the loader returns it, because its id is unknown"


@checked
@dataclass(frozen=True)
class Loader:
    """The documents of a loader of LangChain or a reader of LlamaIndex, or of a function that returns one.

    `loader` is its import path, `module:Class`.

    `args` go to the class, or to the method that loads if only that one takes them. A value `{env: NAME}` is that of
    an environment variable. `id` names the metadata that make up the id of a document; by default these are the usual
    ones, such as `source` and `page`, or else the hash of the text. Loaders have no stamps: every run loads all
    documents and compares them, and what did not change costs nothing more. If the loader raises, nothing is deleted.
    """

    loader: str
    args: Mapping[str, Any] = field(default_factory=dict)
    id: Columns = ()
    max_bytes: Annotated[int, Gt(0)] = MAX_BYTES

    def __post_init__(self) -> None:
        if ":" not in self.loader:
            raise ConfigError(f"loader: {self.loader!r}: expected an import path such as package.module:Class")

    def discover(self) -> Discovery:
        """Load all documents. Raises SourceError if the loader does."""
        self.__dict__.pop("_loaded", None)
        artifacts, failures = self._loaded
        listings = [
            Listing(i, content_hash(one.raw, one.metadata), payload_bytes(one.raw)) for i, one in artifacts.items()
        ]
        unnamed = any(failure.message.endswith(BLOCKS) for failure in failures)
        return Discovery(listings, failures, ("",) if unnamed else ())

    def read(self, artifact_id: str) -> Artifact:
        try:
            found = self._loaded[0].get(artifact_id)
        except SourceError as error:
            raise ReadError(str(error), "unreadable") from error
        if found is None:
            raise ReadError("the loader does not return it any more", "missing")
        require_size(payload_bytes(found.raw), self.max_bytes)
        return found

    @cached_property
    def _loaded(self) -> tuple[dict[str, Artifact], list[Failure]]:
        """The documents by id, and those that cannot be artifacts."""
        found: dict[str, tuple[str, str, dict[str, Any]]] = {}
        failures: list[Failure] = []
        for number, document in enumerate(self._documents(), 1):
            if len(found) + len(failures) > ENTRIES:
                raise SourceError(f"source.loader: {self.loader}: more than {ENTRIES:,} documents, or no end")
            if number > len(found) + len(failures) + REPEATS:
                again = f"{REPEATS:,} documents came again: does it ask for the same page for ever?"
                raise SourceError(f"source.loader: {self.loader}: {again}")
            artifact_id = problem = ""
            try:
                text, metadata = _text_of(document), _metadata_of(document)
                artifact_id = self._id_of(document, metadata)
                if text is None:
                    kind, problem = "parse", f"no text, but {type(document).__name__}"
                elif self.id and not artifact_id:
                    kind, problem = "missing", f"no {' or '.join(columns_of(self.id))} in its metadata"
                else:
                    one = (artifact_id or text_hash(text), text, metadata)
                    found[content_hash(*one)] = one
            except (TypeError, ValueError) as error:  # such as half of a surrogate pair
                kind, problem = "encoding", f"cannot be stored as JSON: {error}"
            if problem:
                where = artifact_id.encode("utf-8", "backslashreplace").decode()
                unknown = "" if where else BLOCKS
                failures.append(Failure(where or f"document {number}", "artifacts", kind, problem + unknown))
        ids = Counter(artifact_id for artifact_id, _, _ in found.values())
        texts = Counter((artifact_id, text) for artifact_id, text, _ in found.values())
        artifacts: dict[str, Artifact] = {}
        for digest, (artifact_id, text, metadata) in found.items():
            own = text_hash(text) if texts[artifact_id, text] == 1 else digest
            i = artifact_id if ids[artifact_id] == 1 else f"{artifact_id}#{own[:DIGITS]}"
            if i != artifact_id and i in ids:  # another document's own id
                i = f"{artifact_id}#{digest}"
            artifacts[i] = Artifact(i, text, metadata)
        return {i: artifacts[i] for i in sorted(artifacts)}, failures

    def _documents(self) -> Iterator[Any]:
        secrets: list[str] = []
        try:
            made = imported(self.loader, "source.loader")
            args = _resolved(self.args, secrets)
            with redirect_stdout(stderr):  # else a loader's output would mix with a program's answer
                yield from _load(made, args)
        except ConfigError as error:
            raise SourceError(str(error)) from None
        except RAISED as error:  # a loader may raise anything
            raise SourceError(f"source.loader: {self.loader}: {mask_secrets(one_line(error), secrets)}") from None

    def _id_of(self, document: Any, metadata: Mapping[str, Any]) -> str:
        if self.id:
            own = [as_id(metadata.get(name)) for name in columns_of(self.id)]
            return "#".join(own) if any(own) else ""
        given = str(getattr(document, "id", None) or getattr(document, "id_", None) or "")
        named = next((as_id(metadata[name]) for name in IDS if metadata.get(name) not in (None, "")), "")
        if not named:
            return "" if RANDOM.fullmatch(given) else given
        return "#".join(
            [named, *(f"{name}={as_id(metadata[name])}" for name in PARTS if metadata.get(name) is not None)]
        )


def _load(made: Any, args: Mapping[str, Any]) -> Iterable[Any]:
    """Return the documents of a class of loaders, or of the loader that a function returns.

    Arguments of a class that only its method takes go there.
    """
    if not inspect.isclass(made):
        loader, later = made(**args), {}
        method = _method_of(type(loader))
    else:
        method = _method_of(made)
        takes, init = inspect.signature(getattr(made, method)).parameters, inspect.signature(made).parameters
        later = {name: value for name, value in args.items() if name in takes and name not in init}
        loader = made(**{name: value for name, value in args.items() if name not in later})
    documents: Iterable[Any] = getattr(loader, method)(**later)
    return documents


def _method_of(kind: type) -> str:
    method = next((method for method in METHODS if _is_own(kind, method)), None)
    if method is None:
        raise ConfigError(f"source.loader: {kind.__name__} has none of the methods {', '.join(METHODS)}")
    return method


def _is_own(made: Any, method: str) -> bool:
    """Check whether a class has a method that its framework does not leave to raise NotImplementedError."""
    found = getattr(made, method, None)
    if not callable(found):
        return False
    # The base class of LlamaIndex has a lazy_load_data that raises; its load_data calls lazy_load_data.
    return method != "lazy_load_data" or "BaseReader" not in getattr(found, "__qualname__", "")


def _text_of(document: Any) -> str | None:
    """Return the text of a document of either framework; None if it has none."""
    text = getattr(document, "page_content", None)
    text = getattr(document, "text", None) if text is None else text
    return text if isinstance(text, str) else None


def _metadata_of(document: Any) -> dict[str, Any]:
    found = getattr(document, "metadata", None)
    plain = {str(name): plain_value(value) for name, value in found.items()} if isinstance(found, Mapping) else {}
    return {name: value if isinstance(value, PLAIN) else to_json(value).strip('"') for name, value in plain.items()}


def _resolved(value: Any, secrets: list[str]) -> Any:
    """Return arguments with the values of the environment variables that they name, which are added to `secrets`."""
    if isinstance(value, Mapping):
        if value.keys() == {"env"}:
            found = os.environ.get(str(value["env"]))
            if found is None:
                raise ConfigError(f"source.args: the environment variable {value['env']} is not set")
            secrets.append(found)
            return found
        return {name: _resolved(each, secrets) for name, each in value.items()}
    return [_resolved(each, secrets) for each in value] if isinstance(value, list | tuple) else value
