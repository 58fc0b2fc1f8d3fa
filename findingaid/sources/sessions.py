"""Transcripts of Claude Code.

An artifact is a session; its id is the file's path below the root, without the suffix.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar

import orjson
from annotated_types import Gt

from findingaid.model import Artifact, Discovery, Listing, Note
from findingaid.registry import checked
from findingaid.sources.addresses import ConfigRoot, StorageOptions
from findingaid.sources.files import Files
from findingaid.text.titles import as_title

SUFFIX = ".jsonl"

FORMAT = 8
"""Version of the parser. Increment it when turns are parsed differently: it is part of each stamp."""

NO_TURNS = "no question of a person in it, so nothing of it is found: is it a transcript of Claude Code?"

NO_QUESTION = "texts before the first question, not read"
ATTACHED = "pictures and documents in questions, not read"
REPEATED = "lines that a compaction wrote once more, not read again"
UNFINISHED = "last lines that are not whole, not read unless more follows"

NOT_ASKED = ("isMeta", "isSidechain", "isCompactSummary")
"""Keys that mark lines in the user's name that no person wrote."""

TYPED = {"command-name": "", "command-args": " ", "bash-input": "\n! "}
"""Tags around text that a person typed -> prefix of that text in the question, as in "/review the till" or "! make"."""

NOT_TYPED = (
    "command-message",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "bash-stdout",
    "bash-stderr",
    "system-reminder",
    "teammate-message",
    "user-prompt-submit-hook",
    "task-notification",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
)
"""Tags around text that Claude Code writes into a message in the user's name."""

TAG = re.compile(rf"(?:^|(?<=>))[ \t]*<({'|'.join((*TYPED, *NOT_TYPED))})(?: [^<>\n]*)?>", re.MULTILINE)
"""Beginning of such a tag, at the beginning of a line or behind another tag."""

NOT_SAID = "<synthetic>"
"""Model of what Claude Code writes in the assistant's name, such as "No response requested."."""

INTERRUPTED = re.compile(r"\[Request interrupted by user[^\[\]]*\]")
"""Message that Claude Code writes in the user's name when an answer is stopped."""

TITLES = {"ai-title": "aiTitle", "custom-title": "customTitle"}
"""Types of lines with a title of the session -> its key, the better one last: one that a person gave."""

ASKED_MEANWHILE = {"type": "queued_command", "commandMode": "prompt"}
"""Fields of an attachment that holds a question which a person asked while the assistant worked."""


@checked
@dataclass(frozen=True)
class Sessions:
    """Every transcript below `root`; those of subagents only with `subagents`.

    The payload is a mapping of session, project, title and `turns`. Each turn is a mapping of user_prompt,
    assistant_summary, assistant_full, tools, model and time. assistant_summary is the assistant's last text; where
    notifications divide the turn, it also has the last text before each.
    """

    root: ConfigRoot
    subagents: bool = False
    hidden: bool = False
    max_bytes: Annotated[int, Gt(0)] = 200_000_000
    storage_options: StorageOptions = field(default_factory=dict, repr=False, hash=False)
    default_strategy: ClassVar[Mapping[str, Any]] = {"name": "ClaudeSession"}

    @property
    def readers(self) -> int:
        """Best number of sessions to read at once."""
        return self._files.readers

    def watched(self) -> list[Path]:
        """Return the root, if it is on this machine."""
        return self._files.watched()

    def leave_out(self, own: Iterable[str]) -> None:
        """Never list these files and folders, which the program itself writes."""
        self._files.leave_out(own)

    def discover(self) -> Discovery:
        found = self._files.discover()
        listings = [_of_session(listing) for listing in found.listings]
        failures = [replace(x, artifact_id=x.artifact_id.removesuffix(SUFFIX)) for x in found.failures]
        return replace(found, listings=sorted(listings, key=lambda x: x.artifact_id), failures=failures, notes=())

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a transcript as `discover` lists it now; None if it is gone. Raises SourceError."""
        found = self._files.listing(artifact_id + SUFFIX)
        return found and _of_session(found)

    def read(self, artifact_id: str) -> Artifact:
        text = self._files.payload(artifact_id + SUFFIX)
        transcript = _Transcript(_is_subagent(artifact_id))
        for line in _lines(text, transcript.left_out):
            transcript.take(line)
        path = PurePosixPath(artifact_id)
        project = transcript.project or str(path.parent)
        turns = [turn.fields() for turn in transcript.turns]
        title = as_title(transcript.title()) or _first_question(turns) or as_title(path.name)
        raw = {
            "session": path.name,
            "project": project,
            "title": title,
            "turns": turns,
        }
        started = turns[0]["time"] if turns else ""
        own = {
            "title": title,
            "session": path.name,
            "project": project,
            "branch": transcript.branch,
            "started": started,
        }
        notes = [Note("damaged_lines", "damaged lines, not read", transcript.damaged)] if transcript.damaged else []
        notes += [Note("left_out", words, count) for words, count in transcript.left_out.items() if count]
        if not turns and text.strip():
            notes.append(Note("no_turns", NO_TURNS))
        return Artifact(artifact_id, raw, {**own, "damaged_lines": transcript.damaged}, notes)

    @cached_property
    def _files(self) -> Files:
        left_out = () if self.subagents else ("**/agent-*.jsonl", "**/subagents/")
        return Files(self.root, (f"**/*{SUFFIX}",), left_out, self.hidden, self.max_bytes, self.storage_options)


@dataclass
class _Turn:
    """One prompt, and everything up to the next prompt."""

    prompt: str
    time: str
    said: list[str] = field(default_factory=list)
    tools: dict[str, None] = field(default_factory=dict)
    model: str = ""
    answers: list[str] = field(default_factory=list)
    """Last texts before each message that nobody typed, such as a notification, which the assistant answers as well."""

    answered: int = 0
    """Number of texts up to the last of `answers`."""

    def end_answer(self) -> None:
        """Keep the last text as an answer; the next texts answer a message that nobody typed."""
        self.answers += self.said[self.answered :][-1:]
        self.answered = len(self.said)

    def fields(self) -> dict[str, Any]:
        return {
            "user_prompt": self.prompt,
            "assistant_summary": "\n\n".join([*self.answers, *self.said[self.answered :][-1:]]),
            "assistant_full": "\n\n".join(self.said),
            "tools": list(self.tools),
            "model": self.model,
            "time": self.time,
        }


@dataclass
class _Transcript:
    """Parser state over the lines of a transcript."""

    in_subagent: bool
    project: str = ""
    branch: str = ""
    titles: dict[str, str] = field(default_factory=dict)
    """Last title of each type in `TITLES`."""

    summaries: dict[str, str] = field(default_factory=dict)
    """Titles by the id of the last line that they cover, in order; "" for a title that names none."""

    damaged: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    turns: list[_Turn] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    """Ids of the lines so far. A second compaction writes lines from before the first once more, with their ids."""

    def take(self, line: Mapping[str, Any] | None) -> None:
        """Take in the next line of the transcript; None is a damaged one."""
        if line is None:
            self.damaged += 1
        elif (own := _text(line.get("uuid"))) and own in self.ids:
            self.left_out[REPEATED] += 1
        else:
            self.ids.add(own)
            self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        self.project = self.project or _text(line.get("cwd"))
        self.branch = self.branch or _text(line.get("gitBranch"))
        message = line.get("message")
        attached = line.get("attachment")
        if line.get("type") == "summary":
            leaf = _text(line.get("leafUuid"))
            self.summaries.pop(leaf, None)
            self.summaries[leaf] = _text(line.get("summary"))
        elif (kind := _text(line.get("type"))) in TITLES and (title := _text(line.get(TITLES[kind])).strip()):
            self.titles[kind] = title
        elif isinstance(attached, dict) and attached.items() >= ASKED_MEANWHILE.items():
            self._take({**line, "type": "user", "attachment": None, "message": {"content": attached.get("prompt")}})
        elif isinstance(message, dict) and (self.in_subagent or not line.get("isSidechain")):
            self._message(line, message)

    def _message(self, line: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        if message.get("model") == NOT_SAID or line.get("isApiErrorMessage"):
            return
        blocks = list(_blocks(message.get("content")))
        said = "\n\n".join(text for block in blocks if (text := _text(block.get("text")).strip()))
        if line.get("type") == "user" and not self._is_noise(line):
            pictures = sum(block.get("type") in ("image", "document") for block in blocks)
            self.left_out[ATTACHED] += pictures
            if typed := _typed(said):
                self.turns.append(_Turn(typed, _text(line.get("timestamp"))))
            elif (said or pictures) and self.turns:
                self.turns[-1].end_answer()
        elif line.get("type") == "assistant" and not self.turns:
            self.left_out[NO_QUESTION] += bool(said)
        elif line.get("type") == "assistant":
            turn = self.turns[-1]
            turn.said += [said] if said else []
            turn.tools |= {_text(block.get("name")): None for block in blocks if block.get("type") == "tool_use"}
            turn.model = _text(message.get("model")) or turn.model

    def title(self) -> str:
        """Return the title of the session; a name that a person gave it goes first.

        Summaries of other sessions, which Claude Code also writes into a transcript, are ignored.
        """
        if named := next((self.titles[kind] for kind in reversed(TITLES) if kind in self.titles), ""):
            return named
        own = (title for leaf, title in reversed(self.summaries.items()) if not leaf or leaf in self.ids)
        return next(filter(None, own), "")

    def _is_noise(self, line: Mapping[str, Any]) -> bool:
        return any(line.get(mark) for mark in NOT_ASKED if not (self.in_subagent and mark == "isSidechain"))


def _first_question(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the first line of the first question with an answer, unlike /clear, or else of the first."""
    answered = [turn for turn in turns if turn["assistant_full"]] or turns
    return as_title(answered[0]["user_prompt"].strip().split("\n")[0]) if answered else ""


def _typed(message: str) -> str:
    """Return the words that a person typed in a message, without those of Claude Code; "" if there are none."""
    parts, at, unclosed = list[str](), 0, set[str]()
    for opened in TAG.finditer(message):
        tag = opened[1]
        if opened.start() < at or tag in unclosed:
            continue
        end = message.find(f"</{tag}>", opened.end())
        if end < 0:
            unclosed.add(tag)
            continue
        parts.append(message[at : opened.start()].rstrip())
        if tag in TYPED and (typed := message[opened.end() : end].strip()):
            parts.append(TYPED[tag] + typed)
        at = end + len(f"</{tag}>")
    typed = "".join([*parts, message[at:]]).strip()
    return "" if INTERRUPTED.fullmatch(typed) else typed


def _is_subagent(artifact_id: str) -> bool:
    path = PurePosixPath(artifact_id)
    return path.name.startswith("agent-") or "subagents" in path.parent.parts


def _of_session(listing: Listing) -> Listing:
    """Return the listing of a file as that of its session; its stamp also changes with the format."""
    settled = listing.stamp.removesuffix("?")
    stamp = f"{settled}:{FORMAT}" + "?" * (settled != listing.stamp) if settled else listing.stamp
    return replace(listing, artifact_id=listing.artifact_id.removesuffix(SUFFIX), stamp=stamp)


def _lines(text: bytes, left_out: Counter[str]) -> Iterator[Mapping[str, Any] | None]:
    """Yield the lines of a transcript, None for a damaged one.

    An incomplete last line is counted: it is still being written, or its writer was stopped.
    """
    for line in io.BytesIO(text):
        try:
            value = orjson.loads(line) if line.strip() else {}
        except orjson.JSONDecodeError:
            if not line.endswith(b"\n"):
                left_out[UNFINISHED] += 1
                return
            value = None
        yield value if isinstance(value, dict) else None


def _blocks(content: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the blocks of a message; a plain text counts as one block. Thoughts and tool results hold no `text`."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
