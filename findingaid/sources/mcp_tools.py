"""Tools of MCP servers. An artifact is a tool, its id `server/tool`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import orjson
from annotated_types import Gt
from pydantic import AfterValidator, BeforeValidator, ValidationError

from findingaid.errors import ConfigError, ReadError, SourceError
from findingaid.identity.hashes import content_hash, payload_bytes
from findingaid.model import Artifact, Discovery, Failure, Listing, Note
from findingaid.registry import ConfigPath, checked, one_line
from findingaid.sources.json_schema import MAX_PARAMETERS, parameter_lines
from findingaid.sources.mcp_servers import (
    SHOWN,
    UNSEEN,
    Answer,
    Server,
    ServerProblem,
    ToolProblem,
    list_server_tools,
)
from findingaid.sources.records import require_size
from findingaid.text.titles import as_title

if TYPE_CHECKING:
    from mcp.types import Tool

CONFIG_KEY = "mcpServers"

SERVER_NAME = re.compile(r"\w[\w.@ -]*")

WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


def _mapping(servers: object) -> object:
    """Check for a mapping, since pydantic's own error messages would show values that may be secrets."""
    if not isinstance(servers, Mapping | None):
        raise ValueError("expected servers by their names")  # noqa: TRY004  # for pydantic
    return servers


def _named(servers: Mapping[str, Server] | None) -> Mapping[str, Server] | None:
    if wrong := [name for name in servers or () if not SERVER_NAME.fullmatch(name)]:
        raise ValueError(f"a server's name may contain only letters, digits, spaces and . _ @ -; got {wrong[0]!r}")
    return servers


@checked
@dataclass(frozen=True)
class Tools:
    """Every tool of `servers`, and of the servers in a `config` file's `mcpServers`, the format of Claude and Cursor.

    The payload is a mapping of server, name, description, parameters, `text` (name and description) and `reference`
    (all of it). A server that does not answer within `timeout` seconds fails alone, and its known tools are kept.
    """

    servers: Annotated[Mapping[str, Server] | None, BeforeValidator(_mapping), AfterValidator(_named)] = None
    config: ConfigPath | None = None
    timeout: Annotated[float, Gt(0)] = 30
    max_bytes: Annotated[int, Gt(0)] = 1_000_000
    default_strategy: ClassVar[Mapping[str, Any]] = {"name": "WholeText", "kind": "tool"}

    def __post_init__(self) -> None:
        if not self.servers and self.config is None:
            raise ConfigError("servers: missing: name servers here, or a file that lists them as `config`")

    def discover(self) -> Discovery:
        self._held.clear()
        servers = self._servers()
        self._ask(servers)
        problems = {name: held.problem for name, held in self._held.items() if held.problem}
        if problems and len(problems) == len(servers):
            said = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
            raise SourceError(f"source: no server lists its tools: {said}")
        listings = [listing for held in self._held.values() for listing in held.listings.values()]
        failures = [failure for held in self._held.values() for failure in held.failures]
        failures += [Failure(f"{name}/", "artifacts", p.kind, str(p)) for name, p in problems.items()]
        listings.sort(key=lambda x: x.artifact_id)
        emptied = {f"{name}/": 0.0 for name, held in self._held.items() if not (held.listings or held.problem)}
        return Discovery(listings, failures, [f"{name}/" for name in problems], emptied=emptied)

    def read(self, artifact_id: str) -> Artifact:
        name = artifact_id.partition("/")[0]
        if name not in self._held:
            try:
                self._ask({known: server for known, server in self._servers().items() if known == name})
            except SourceError as error:
                raise ReadError(str(error), "unreadable") from error
        held = self._held.get(name, _Held())
        if held.problem:
            raise ReadError(f"{name}: {held.problem}", held.problem.kind)
        if artifact_id not in held.artifacts:
            raise ReadError("its server no longer has this tool", "missing")
        require_size(held.listings[artifact_id].size, self.max_bytes)
        return held.artifacts[artifact_id]

    def _ask(self, servers: Mapping[str, Server | ServerProblem]) -> None:
        """Store the answers of servers, so that each server is started once a run."""
        asked = {name: server for name, server in servers.items() if isinstance(server, Server)}
        answers: Mapping[str, Answer] = list_server_tools(asked, self.timeout) if asked else {}
        for name, server in servers.items():
            self._held[name] = _hold(name, server if isinstance(server, ServerProblem) else answers[name])

    @cached_property
    def _held(self) -> dict[str, _Held]:
        return {}

    def _servers(self) -> dict[str, Server | ServerProblem]:
        """Return all servers by name, with the problem of each that is misconfigured.

        Raises SourceError for a file that cannot be used.
        """
        return {**self._from_file(), **(self.servers or {})}

    def _from_file(self) -> dict[str, Server | ServerProblem]:
        if self.config is None:
            return {}
        try:
            if self.config.exists() and not self.config.is_file():
                raise SourceError(f"source.config: {self.config}: not a regular file")
            parsed = orjson.loads(self.config.read_bytes())
        except OSError as error:
            raise SourceError(f"source.config: {self.config}: {error.strerror or error}") from error
        except orjson.JSONDecodeError as error:
            raise SourceError(f"source.config: {self.config}:{error.lineno}: not JSON: {error.msg}") from None
        servers = parsed.get(CONFIG_KEY) if isinstance(parsed, dict) else None
        if not isinstance(servers, dict):
            raise SourceError(f"source.config: {self.config}: has no mapping {CONFIG_KEY!r}")
        on = {name: spec for name, spec in servers.items() if not (isinstance(spec, dict) and spec.get("disabled"))}
        return {name: _server(name, spec, self.config) for name, spec in on.items()}


def _server(name: str, spec: Any, file: Path) -> Server | ServerProblem:
    """Parse one server of a file. Keys that other programs keep there for themselves are ignored."""
    known = {key: spec[key] for key in spec if key in Server.model_fields} if isinstance(spec, dict) else spec
    try:
        server = Server.model_validate(known, context={"base": file.parent})
        _named({name: server})
    except ValidationError as error:
        return ServerProblem("parse", f"{file}: {one_line(error, name, list(Server.model_fields))}")
    except ValueError as error:
        return ServerProblem("parse", f"{file}: {error}")
    return server


@dataclass
class _Held:
    """The tools of one server as artifacts, with failures for tools that cannot be one; or the server's problem."""

    problem: ServerProblem | None = None
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    listings: dict[str, Listing] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, server: str, place: int, tool: Tool | ToolProblem) -> None:
        """Store a tool as an artifact, or record why it cannot be one."""
        artifact_id = f"{server}/{tool.name}"
        if not tool.name.strip() or UNSEEN.search(tool.name) or "\n" in tool.name:
            return self._fail(server, place, "missing", f"its name {tool.name[:SHOWN]!r} is not valid")
        if artifact_id in self.artifacts:
            return self._fail(server, place, "duplicate", f"duplicate tool {tool.name!r}: keeping the first")
        if isinstance(tool, ToolProblem):
            self.failures.append(Failure(artifact_id, "artifacts", "parse", tool.message))
            return None
        artifact = _artifact(artifact_id, server, tool)
        try:
            stamp = content_hash(artifact.raw, artifact.metadata)
        except TypeError as error:  # orjson raises this for a lone surrogate
            return self._fail(server, place, "encoding", f"contains text that is not valid Unicode ({error})")
        self.artifacts[artifact_id] = artifact
        self.listings[artifact_id] = Listing(artifact_id, stamp, payload_bytes(artifact.raw))
        return None

    def _fail(self, server: str, place: int, kind: str, message: str) -> None:
        self.failures.append(Failure(f"{server}/: tool {place}", "artifacts", kind, message))


def _hold(server: str, answer: Answer) -> _Held:
    if isinstance(answer, ServerProblem):
        return _Held(answer)
    held = _Held()
    for place, tool in enumerate(answer, 1):
        held.add(server, place, tool)
    return held


def _artifact(artifact_id: str, server: str, tool: Tool) -> Artifact:
    found, more = parameter_lines(tool.input_schema)
    lines = [" ".join(line.split()) for line in found]
    described = UNSEEN.sub("", tool.description or "").strip()
    # Measured on MetaTool: a name split into words is found better than the name as written. Parameters beside a
    # description make a tool harder to find.
    words = WORD_ENDS.sub(" ", tool.name).strip().lower()
    text = f"{words}: {described}" if described else words
    listed = UNSEEN.sub("", "\n".join(f"- {line}" for line in lines))
    raw = {
        "server": server,
        "name": tool.name,
        "description": described,
        "parameters": listed,
        "text": text,
        "reference": f"{text}\n\nParameters:\n{listed}" if listed else text,
    }
    hints = tool.annotations
    title = tool.title or (hints.title if hints else None)
    metadata = {
        "title": as_title(UNSEEN.sub("", title or "")) or as_title(tool.name),
        "server": server,
        "n_parameters": len(lines),
        "read_only": hints.read_only_hint if hints else None,
        "destructive": hints.destructive_hint if hints else None,
        "idempotent": hints.idempotent_hint if hints else None,
        "open_world": hints.open_world_hint if hints else None,
    }
    notes = [Note("left_out", f"parameters beyond the first {MAX_PARAMETERS}, not read")] if more else []
    return Artifact(artifact_id, raw, metadata, notes)
