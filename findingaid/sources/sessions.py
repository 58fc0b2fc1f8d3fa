"""Claude Code's transcripts. An artifact is a session, its id the file's path below the root, without suffix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

import orjson
from annotated_types import Gt

from findingaid.model import Artifact, Discovery
from findingaid.registry import STRICT
from findingaid.sources.addresses import ConfigRoot, StorageOptions
from findingaid.sources.files import Files

SUFFIX = ".jsonl"

NOT_ASKED = ("isMeta", "isSidechain", "isCompactSummary")
"""Marks of lines in the user's name that no person wrote."""


@dataclass(frozen=True)
class Sessions:
    """Every transcript below `root`; those of subagents only with `subagents`.

    The payload is a mapping of session, project, title and `turns`, each a mapping of user_prompt,
    assistant_summary (the last thing said), assistant_full, tools, model and time.
    """

    root: ConfigRoot
    subagents: bool = False
    hidden: bool = False
    max_bytes: Annotated[int, Gt(0)] = 200_000_000
    storage_options: StorageOptions = field(default_factory=dict, repr=False, hash=False)
    __pydantic_config__: ClassVar = STRICT

    @property
    def readers(self) -> int:
        """How many sessions are best read at once."""
        return self._files.readers

    def discover(self) -> Discovery:
        found = self._files.discover()
        listings = [replace(x, artifact_id=x.artifact_id.removesuffix(SUFFIX)) for x in found.listings]
        failures = [replace(x, artifact_id=x.artifact_id.removesuffix(SUFFIX)) for x in found.failures]
        return Discovery(sorted(listings, key=lambda x: x.artifact_id), failures, found.unknown)

    def read(self, artifact_id: str) -> Artifact:
        transcript = _Transcript(in_subagent=_is_subagent(artifact_id))
        for line in _lines(self._files.payload(artifact_id + SUFFIX)):
            transcript.take(line)
        path = PurePosixPath(artifact_id)
        project = transcript.project or str(path.parent)
        turns = [turn.fields() for turn in transcript.turns]
        title = transcript.title or (turns[0]["user_prompt"].strip().split("\n")[0] if turns else path.name)
        raw = {"session": path.name, "project": project, "title": title, "turns": turns}
        started = turns[0]["time"] if turns else ""
        own = {
            "title": title,
            "session": path.name,
            "project": project,
            "branch": transcript.branch,
            "started": started,
        }
        return Artifact(artifact_id, raw, {**own, "damaged_lines": transcript.damaged})

    @cached_property
    def _files(self) -> Files:
        left_out = () if self.subagents else ("**/agent-*.jsonl", "**/subagents/")
        return Files(self.root, (f"**/*{SUFFIX}",), left_out, self.hidden, self.max_bytes, self.storage_options)


@dataclass
class _Turn:
    """What was asked, and everything up to the next question."""

    prompt: str
    time: str
    said: list[str] = field(default_factory=list)
    tools: dict[str, None] = field(default_factory=dict)
    model: str = ""

    def fields(self) -> dict[str, Any]:
        return {
            "user_prompt": self.prompt,
            "assistant_summary": self.said[-1] if self.said else "",
            "assistant_full": "\n\n".join(self.said),
            "tools": list(self.tools),
            "model": self.model,
            "time": self.time,
        }


@dataclass
class _Transcript:
    """What a transcript's lines come to, one after the other."""

    in_subagent: bool
    turns: list[_Turn] = field(default_factory=list)
    project: str = ""
    branch: str = ""
    title: str = ""
    damaged: int = 0

    def take(self, line: Mapping[str, Any] | None) -> None:
        if line is None:
            self.damaged += 1
            return
        self.project = self.project or _text(line.get("cwd"))
        self.branch = self.branch or _text(line.get("gitBranch"))
        message = line.get("message")
        if line.get("type") == "summary":
            self.title = _text(line.get("summary")) or self.title
        elif isinstance(message, dict) and (self.in_subagent or not line.get("isSidechain")):
            self._message(line, message)

    def _message(self, line: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        blocks = list(_blocks(message.get("content")))
        said = "\n\n".join(text for block in blocks if (text := _text(block.get("text")).strip()))
        if line.get("type") == "user" and said and not self._is_noise(line):
            self.turns.append(_Turn(said, _text(line.get("timestamp"))))
        elif line.get("type") == "assistant" and self.turns:
            turn = self.turns[-1]
            turn.said += [said] if said else []
            turn.tools |= {_text(block.get("name")): None for block in blocks if block.get("type") == "tool_use"}
            turn.model = _text(message.get("model")) or turn.model

    def _is_noise(self, line: Mapping[str, Any]) -> bool:
        return any(line.get(mark) for mark in NOT_ASKED if not (self.in_subagent and mark == "isSidechain"))


def _is_subagent(artifact_id: str) -> bool:
    path = PurePosixPath(artifact_id)
    return path.name.startswith("agent-") or "subagents" in path.parent.parts


def _lines(transcript: bytes) -> Iterator[Mapping[str, Any] | None]:
    """The objects of a transcript, None for a damaged line; half a last line is still being written and left out."""
    lines = transcript.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            value = orjson.loads(line) if line.strip() else {}
        except orjson.JSONDecodeError:
            if number < len(lines):
                yield None
            continue
        yield value if isinstance(value, dict) else None


def _blocks(content: Any) -> Iterator[Mapping[str, Any]]:
    """The blocks of a message; a text alone stands for one block. Thoughts and tools' results hold no `text`."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
