"""Sessions source: transcripts as turns, including growing and damaged ones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import Artifact, FindingAid, Surface, SurfacePlan
from findingaid.errors import ReadError, SourceError
from findingaid.model import Raw
from findingaid.sources.sessions import ATTACHED, NO_QUESTION, UNFINISHED, Sessions
from findingaid.testing import CountingEmbedder

SESSION = "-home-ada-shop/84a7e050"


def user(content: Any, **more: Any) -> dict[str, Any]:
    line = {"type": "user", "cwd": "/home/ada/shop", "gitBranch": "main", "timestamp": "2026-02-01T10:00:00Z"}
    return {**line, "message": {"role": "user", "content": content}, **more}


def assistant(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"model": "claude-x", "content": list(blocks)}, **more}


def queued(prompt: Any, mode: str = "prompt") -> dict[str, Any]:
    return {"type": "attachment", "attachment": {"type": "queued_command", "prompt": prompt, "commandMode": mode}}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def used(tool: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "1", "name": tool, "input": {}}


FIRST = [
    user("Fix the basket."),
    assistant({"type": "thinking", "thinking": "Hm."}, said("I will look."), used("Read")),
    user([{"type": "tool_result", "tool_use_id": "1", "content": "code"}]),
    assistant(used("Edit"), used("Read")),
    assistant(said("The basket is fixed.")),
]
SECOND = [user([said("Now the till."), {"type": "image"}], timestamp="2026-02-01T11:00:00Z"), assistant(said("Done."))]


def put(root: Path, lines: list[Any], name: str = SESSION, end: str = "\n") -> Path:
    path = root / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end)
    return path


def turns(root: Path, **more: Any) -> list[dict[str, Any]]:
    source = Sessions(root, **more)
    raw = source.read(source.discover().listings[0].artifact_id).raw
    assert isinstance(raw, dict)
    return list(raw["turns"])


def test_a_session_is_its_turns(tmp_path: Path) -> None:
    put(tmp_path, [{"type": "summary", "summary": "Basket and till"}, *FIRST, *SECOND])

    artifact = Sessions(tmp_path).read(SESSION)

    assert turns(tmp_path) == [
        {
            "user_prompt": "Fix the basket.",
            "assistant_summary": "The basket is fixed.",
            "assistant_full": "I will look.\n\nThe basket is fixed.",
            "tools": ["Read", "Edit"],
            "model": "claude-x",
            "time": "2026-02-01T10:00:00Z",
        },
        {
            "user_prompt": "Now the till.",
            "assistant_summary": "Done.",
            "assistant_full": "Done.",
            "tools": [],
            "model": "claude-x",
            "time": "2026-02-01T11:00:00Z",
        },
    ]
    assert artifact.metadata == {
        "title": "Basket and till",
        "session": "84a7e050",
        "project": "/home/ada/shop",
        "branch": "main",
        "started": "2026-02-01T10:00:00Z",
        "damaged_lines": 0,
    }


def test_what_no_person_asked_is_no_turn(tmp_path: Path) -> None:
    noise = [user("x", isMeta=True), user("x", isSidechain=True), user("x", isCompactSummary=True), user("  ")]
    put(tmp_path, [assistant(said("before")), *noise, *FIRST, assistant(said("aside"), isSidechain=True)])

    assert [turn["user_prompt"] for turn in turns(tmp_path)] == ["Fix the basket."]
    assert turns(tmp_path)[0]["assistant_summary"] == "The basket is fixed."


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("<task-notification>\n<task-id>b1</task-id>\n<summary>Build done</summary>\n</task-notification>", None),
        ("<local-command-stdout>Set model to x</local-command-stdout>", None),
        ("<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>", None),
        ("[Request interrupted by user for tool use]", None),
        ("<command-name>/model</command-name>\n   <command-args></command-args>", "/model"),
        (
            "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
            "<command-args>the till\nand the basket</command-args>",
            "/review the till\nand the basket",
        ),
        ("<bash-input>make test</bash-input>", "! make test"),
        ("Fix the till.\n<system-reminder>\nBe brief.\n</system-reminder>\nThanks.", "Fix the till.\nThanks."),
        (
            [said("<ide_opened_file>The user opened a.py.</ide_opened_file>"), said("Fix the till.")],
            "Fix the till.",
        ),
        ('<teammate-message teammate_id="lead" color="blue">\nTake the till.\n</teammate-message>', None),
        ("<user-prompt-submit-hook>Checked.</user-prompt-submit-hook>", None),
        ([{"type": "image"}], None),
        ("What does <system-reminder> mean in a prompt?", "What does <system-reminder> mean in a prompt?"),
        ("<system-reminder> has no end here.", "<system-reminder> has no end here."),
        ("Why is [Request interrupted by user] in it?", "Why is [Request interrupted by user] in it?"),
    ],
)
def test_what_claude_code_writes_in_the_users_name_is_no_question(
    tmp_path: Path, message: Any, typed: str | None
) -> None:
    put(tmp_path, [*FIRST, user(message), assistant(said("Then that."))])

    found = [turn["user_prompt"] for turn in turns(tmp_path)]

    assert found == ["Fix the basket.", *([typed] if typed else [])]
    assert turns(tmp_path)[-1]["assistant_summary"] == ("" if typed else "The basket is fixed.\n\n") + "Then that."


def test_the_answer_to_a_question_stays_one_after_notifications(tmp_path: Path) -> None:
    notification = user("<task-notification>Done</task-notification>")
    replies = [assistant(said("Looking.")), assistant(said("It is the till."))]
    put(
        tmp_path,
        [user("Why?"), notification, *replies, notification, notification, assistant(said("Built.")), notification],
    )

    (turn,) = turns(tmp_path)

    assert turn["assistant_summary"] == "It is the till.\n\nBuilt."
    assert turn["assistant_full"] == "Looking.\n\nIt is the till.\n\nBuilt."


def test_the_name_that_a_person_gave_a_session_goes_before_the_title_that_claude_code_wrote(tmp_path: Path) -> None:
    written = {"type": "ai-title", "aiTitle": "Basket repair"}
    given = [{"type": "custom-title", "customTitle": title} for title in ("the shop", "", " ")]
    source = Sessions(tmp_path)
    reads: list[Artifact] = []
    for lines in ([*FIRST, written], [*FIRST, written, *SECOND], [*FIRST, written, *SECOND, *given, written]):
        put(tmp_path, lines)
        reads.append(source.read(SESSION))

    assert [read.metadata["title"] for read in reads] == ["Basket repair", "Basket repair", "the shop"]


def test_the_title_of_another_session_is_not_taken_for_the_sessions_own(tmp_path: Path) -> None:
    foreign = {"type": "summary", "summary": "Roof repairs", "leafUuid": "elsewhere"}
    own = {"type": "summary", "summary": "Repair of the basket", "leafUuid": "here"}
    lines = [foreign, user("Fix the basket."), assistant(said("Done."), uuid="there")]
    put(tmp_path, lines)
    source = Sessions(tmp_path)
    before = source.read(SESSION)

    put(tmp_path, [*lines, own, user("Now the till."), assistant(said("Done."), uuid="here"), foreign])

    assert before.metadata["title"] == "Fix the basket."
    assert source.read(SESSION).metadata["title"] == "Repair of the basket"


@pytest.mark.parametrize("prompt", ["Also the till.", [said("Also the till."), {"type": "image"}]])
def test_a_question_that_was_asked_while_the_assistant_worked_is_a_turn(tmp_path: Path, prompt: Any) -> None:
    """Claude Code writes it as an attachment alone if the assistant takes it up before its turn is over."""
    put(tmp_path, [*FIRST, queued(prompt), assistant(said("Both are done."))])

    assert [(turn["user_prompt"], turn["assistant_summary"]) for turn in turns(tmp_path)] == [
        ("Fix the basket.", "The basket is fixed."),
        ("Also the till.", "Both are done."),
    ]


@pytest.mark.parametrize(
    "line",
    [
        queued("Also the till.", "task-notification"),
        {"type": "attachment", "attachment": {"type": "queued_command", "commandMode": "prompt"}},
        {"type": "attachment", "attachment": {"type": "skill_listing", "content": "x", "prompt": "x"}},
        {"type": "attachment", "attachment": "queued_command"},
        {"type": "queue-operation", "operation": "enqueue", "content": "Also the till."},
    ],
)
def test_attachments_that_no_person_asked_are_no_turn(tmp_path: Path, line: dict[str, Any]) -> None:
    put(tmp_path, [*FIRST, line])

    assert [turn["user_prompt"] for turn in turns(tmp_path)] == ["Fix the basket."]


@pytest.mark.parametrize(
    "line",
    [
        assistant(said("API Error: 529 overloaded"), isApiErrorMessage=True),
        {"type": "assistant", "message": {"model": "<synthetic>", "content": [said("No response requested.")]}},
    ],
    ids=["error", "synthetic"],
)
def test_what_claude_code_writes_in_the_assistants_name_is_no_answer(tmp_path: Path, line: dict[str, Any]) -> None:
    put(tmp_path, [*FIRST, line])

    (turn,) = turns(tmp_path)

    assert (turn["assistant_summary"], turn["model"]) == ("The basket is fixed.", "claude-x")


def test_a_session_is_not_called_after_a_command_without_an_answer(tmp_path: Path) -> None:
    put(tmp_path, [user("<command-name>/clear</command-name>"), *FIRST])

    assert Sessions(tmp_path).read(SESSION).metadata["title"] == "Fix the basket."


def test_what_is_said_before_a_question_and_shown_with_one_is_counted(tmp_path: Path) -> None:
    alone = user([{"type": "document"}])
    put(tmp_path, [assistant(said("before")), assistant(used("Read")), *FIRST, *SECOND, alone])

    read = Sessions(tmp_path).read(SESSION)

    assert [(note.words, note.count) for note in read.notes] == [(NO_QUESTION, 1), (ATTACHED, 2)]


def test_transcripts_of_subagents_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    side = [{**line, "isSidechain": True} for line in FIRST]
    put(tmp_path, side, "-p/agent-1")
    put(tmp_path, side, "-p/84a7e050/subagents/agent-2")

    assert Sessions(tmp_path).discover().listings == []
    assert len(Sessions(tmp_path, subagents=True).discover().listings) == 2
    assert len(turns(tmp_path, subagents=True)) == 1


def test_half_a_last_line_is_counted_and_waits_for_the_next_run(tmp_path: Path) -> None:
    path = put(tmp_path, FIRST)
    before = Sessions(tmp_path).discover().listings[0].stamp
    whole = json.dumps(SECOND[0])
    put(tmp_path, [*FIRST, whole[:40]], end="")

    assert len(turns(tmp_path)) == 1
    half = Sessions(tmp_path).read(SESSION)
    assert half.metadata["damaged_lines"] == 0
    assert [(note.words, note.count) for note in half.notes] == [(UNFINISHED, 1)]
    assert Sessions(tmp_path).discover().listings[0].stamp != before
    with path.open("a") as file:
        file.write(whole[40:] + "\n")
    assert [turn["user_prompt"] for turn in turns(tmp_path)] == ["Fix the basket.", "Now the till."]
    assert UNFINISHED not in str(Sessions(tmp_path).read(SESSION).notes)


def test_the_turns_before_a_new_one_stay_as_they_were(tmp_path: Path) -> None:
    put(tmp_path, FIRST)
    before = turns(tmp_path)
    put(tmp_path, [*FIRST, *SECOND])

    assert turns(tmp_path)[: len(before)] == before


@pytest.mark.parametrize("damage", ["{half a li", "[1]", '"text"', "\x07"])
def test_a_damaged_line_is_counted_and_the_rest_is_read(tmp_path: Path, damage: str) -> None:
    put(tmp_path, [FIRST[0], damage, *FIRST[1:]])

    assert len(turns(tmp_path)) == 1
    read = Sessions(tmp_path).read(SESSION)
    assert read.metadata["damaged_lines"] == 1
    assert [(note.kind, note.count) for note in read.notes] == [("damaged_lines", 1)]


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"type": "user"},
        {"type": "user", "message": "text"},
        {"type": "user", "message": {"content": None}},
        {"type": "user", "message": {"content": [1, {"type": "text", "text": 3}]}},
        {"type": "assistant", "message": {"content": [{"type": "tool_use"}], "model": 3}},
        {"type": "summary", "summary": None, "cwd": 3},
    ],
)
def test_lines_of_other_shapes_do_no_harm(tmp_path: Path, line: dict[str, Any]) -> None:
    put(tmp_path, [line, *FIRST[:1], line])

    assert [turn["user_prompt"] for turn in turns(tmp_path)] == ["Fix the basket."]


def test_an_empty_file_is_a_session_without_turns(tmp_path: Path) -> None:
    put(tmp_path, [], end="")

    assert turns(tmp_path) == []
    assert Sessions(tmp_path).read(SESSION).metadata["title"] == "84a7e050"


def test_a_transcript_in_which_nobody_asks_is_noted(tmp_path: Path) -> None:
    """Such as one of another program, whose lines have another shape."""
    other = {"type": "response_item", "payload": {"role": "user", "content": [{"type": "input_text", "text": "Hm"}]}}
    put(tmp_path, [other], "other")
    put(tmp_path, [], "empty", "")
    put(tmp_path, FIRST)
    source = Sessions(tmp_path)

    notes = {
        x.artifact_id: [note.kind for note in source.read(x.artifact_id).notes] for x in source.discover().listings
    }

    assert notes == {SESSION: [], "empty": [], "other": ["no_turns"]}


@pytest.mark.parametrize("name", ["new\nline/a", "quote'\"/b", "emoji 🗂", "dot.s"])
def test_odd_names_stand_as_they_are(tmp_path: Path, name: str) -> None:
    put(tmp_path, FIRST, name)

    assert [listing.artifact_id for listing in Sessions(tmp_path).discover().listings] == [name]
    assert turns(tmp_path)


def test_a_line_in_another_encoding_is_damaged_and_the_rest_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, [])
    lines = [json.dumps(user(f"Größe {number}"), ensure_ascii=False) for number in (1, 2)]
    path.write_bytes(lines[0].encode("latin-1") + b"\n" + lines[1].encode() + b"\n")

    assert [turn["user_prompt"] for turn in turns(tmp_path)] == ["Größe 2"]


def test_a_file_that_ends_within_a_letter_is_read_up_to_that_line(tmp_path: Path) -> None:
    path = put(tmp_path, [json.dumps(user("Größe"), ensure_ascii=False)])
    with path.open("ab") as file:
        file.write('{"type": "ö'.encode()[:-1])

    assert [turn["user_prompt"] for turn in turns(tmp_path)] == ["Größe"]


class Prompts:
    """A surface a turn."""

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        assert isinstance(raw, Mapping)
        return SurfacePlan(dict(metadata), [Surface("user_prompt", turn["user_prompt"]) for turn in raw["turns"]])

    def text(self, raw: Raw) -> str:
        return ""


def test_of_a_session_that_grew_only_the_new_turn_is_embedded(
    tmp_path: Path, make_aid: Callable[..., FindingAid], embedder: CountingEmbedder
) -> None:
    put(tmp_path / "projects", FIRST)
    given = {"source": Sessions(tmp_path / "projects"), "strategy": Prompts(), "synthesizer": None}
    make_aid(**given).index()
    put(tmp_path / "projects", [*FIRST, *SECOND])

    make_aid(**given).index()

    assert embedder.seen == ["Fix the basket.", "Now the till."]


def test_a_transcript_over_the_limit_is_a_failed_artifact_that_names_the_setting(tmp_path: Path) -> None:
    put(tmp_path, FIRST)

    with pytest.raises(ReadError, match="max_bytes"):
        Sessions(tmp_path, max_bytes=10).read(SESSION)


def test_a_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such directory"):
        Sessions(tmp_path / "nowhere").discover()


def encoded(*lines: dict[str, Any]) -> list[bytes]:
    return [json.dumps(line, ensure_ascii=False).encode() for line in lines]


PIECES = [
    *encoded(*FIRST, *SECOND, user("Größe 🗂"), user("x", isMeta=True), assistant(said("ß"), isSidechain=True)),
    *encoded(assistant(said("unasked")), user([{"type": "image"}])),
    *encoded({"type": "summary", "summary": "Ein Überblick"}, user("Where?", cwd="/elsewhere", gitBranch="")),
    *encoded(queued("Meanwhile?")),
    b"{half a li",
    b"[1]",
    b"",
    b"  ",
    "Größe".encode("latin-1"),
    json.dumps(user("with a return")).encode() + b"\r",
]


@settings(max_examples=60)
@given(
    lines=st.lists(st.sampled_from(PIECES), max_size=14),
    cut=st.floats(0, 1),
    name=st.sampled_from(["p/s", "p/agent-1"]),
)
def test_a_transcript_that_grows_keeps_the_turns_before_its_last(lines: list[bytes], cut: float, name: str) -> None:
    """Wherever it ended: between lines, within one, within a letter."""
    whole = b"\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        source = Sessions(Path(folder), subagents=True)
        path = Path(folder) / f"{name}.jsonl"
        path.parent.mkdir()
        path.write_bytes(whole[: round(cut * len(whole))])
        before = source.read(name).raw
        path.write_bytes(whole)
        after = source.read(name).raw

    assert isinstance(before, Mapping)
    assert isinstance(after, Mapping)
    settled = before["turns"][:-1]
    assert after["turns"][: len(settled)] == settled


def test_lines_that_a_compaction_writes_once_more_are_read_once(tmp_path: Path) -> None:
    first = [{**line, "uuid": f"first-{i}"} for i, line in enumerate(FIRST)]
    second = [{**line, "uuid": f"second-{i}"} for i, line in enumerate(SECOND)]
    put(tmp_path, [*FIRST, *SECOND])
    plain = turns(tmp_path)
    put(tmp_path, [*first, second[0], *first, second[1], *first])

    assert turns(tmp_path) == plain
    assert [str(note) for note in Sessions(tmp_path).read(SESSION).notes] == [
        "pictures and documents in questions, not read",
        "lines that a compaction wrote once more, not read again: 10",
    ]


def test_a_line_that_was_cut_off_and_then_written_whole_is_read(tmp_path: Path) -> None:
    line = json.dumps({**user("Fix the basket."), "uuid": "1"})
    put(tmp_path, [line[:-9], line])

    assert [turn["user_prompt"] for turn in turns(tmp_path)] == ["Fix the basket."]


SECRET = "zebra-password-99"


def test_after_a_blanked_out_word_a_run_and_a_purge_leave_it_in_no_file(
    tmp_path: Path, make_aid: Callable[..., FindingAid]
) -> None:
    lines = [user(f"Use {SECRET}."), assistant(said("Yes. " * 2000)), *SECOND]
    put(tmp_path / "projects", lines)
    given = {"source": Sessions(tmp_path / "projects"), "strategy": Prompts(), "synthesizer": None}
    aid = make_aid(**given)
    aid.index()
    assert SECRET in stored(aid)
    put(tmp_path / "projects", json.loads(json.dumps(lines).replace(SECRET, "x" * len(SECRET))))

    aid.index()
    aid.purge()

    assert SECRET not in stored(aid)


def stored(aid: FindingAid) -> str:
    return " ".join(p.read_bytes().decode("latin-1") for p in Path(aid.store.uri).rglob("*") if p.is_file())


def test_a_new_format_reads_every_transcript_whole_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, FIRST)
    (before,) = Sessions(tmp_path).discover().listings
    monkeypatch.setattr("findingaid.sources.sessions.FORMAT", 99)
    (after,) = Sessions(tmp_path).discover().listings
    looked_at = Sessions(tmp_path).listing(SESSION)

    assert before.stamp.removesuffix("?") != after.stamp.removesuffix("?")
    assert looked_at is not None
    assert looked_at.stamp == after.stamp
