"""Captions of recordings are read as what was said: whole sentences by speaker, each paragraph with its time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid.errors import ReadError
from findingaid.sources.converters.common import BROKEN
from findingaid.sources.documents import convert_document
from tests.conftest import Cli

LIMIT = 1_000_000

MEETING = """WEBVTT - Weekly

STYLE
::cue { color: white }

NOTE recorded in room 4

7c1/0-0
00:00:01.000 --> 00:00:04.200 align:start
<v Ann Smith>Good morning. The deployment key is</v>

7c1/0-1
00:00:04.200 --> 00:00:06.900
<v Ann Smith>rotated every <b>90</b> days &amp; kept.</v>

00:00:07.000 --> 00:00:09.500
<v.loud Bob>And the backup</v>
<v Ann Smith>Which one?</v>

01:00:09.500 --> 01:00:12.000
Nobody is named here.
"""

SUBTITLES = """1
00:00:01,000 --> 00:00:04,200
<i>The ferry to the island</i>
leaves at nine

2
00:00:04,200 --> 00:00:06,900
{\\an8}every morning except Mondays.

3
00:00:20,000 --> 00:00:22,000
It returns at five.
"""

ROLLING = """WEBVTT

00:00:00.000 --> 00:00:02.000
\x20
the tide<00:00:00.500><c> tables</c>

00:00:02.000 --> 00:00:02.010
the tide tables
\x20

00:00:02.010 --> 00:00:04.000
the tide tables
hang<00:00:03.000><c> outside</c>
"""


def read(text: str, name: str) -> tuple[str, list[str]]:
    found = convert_document(name, text.encode(), LIMIT)
    assert found is not None
    return found.text, [note.words for note in found.notes]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_meeting_is_read_by_speaker_and_its_comments_are_counted(line_end: str) -> None:
    text, notes = read("\ufeff" + MEETING.replace("\n", line_end), "a.vtt")

    assert text.split("\n\n") == [
        "[0:00:01] Ann Smith: Good morning. The deployment key is rotated every 90 days & kept.",
        "[0:00:07] Bob: And the backup",
        "[0:00:07] Ann Smith: Which one?",
        "[1:00:09] Nobody is named here.",
    ]
    assert notes == ["comments, not read"]


def test_a_sentence_over_two_subtitles_is_one_and_a_pause_ends_the_paragraph() -> None:
    text, notes = read(SUBTITLES, "a.srt")

    assert text.split("\n\n") == [
        "[0:00:01] The ferry to the island leaves at nine every morning except Mondays.",
        "[0:00:20] It returns at five.",
    ]
    assert notes == []


def test_captions_that_roll_up_are_read_once() -> None:
    assert read(ROLLING, "a.vtt") == ("[0:00:00] the tide tables hang outside", [])


def test_what_is_said_twice_is_read_twice() -> None:
    said = ["<v Ann>No.", "<v Bob>No.", "<v Bob>No.", "- Yes.\n- Yes."]
    cues = "\n\n".join(f"00:00:0{i}.000 --> 00:00:0{i + 1}.000\n{words}" for i, words in enumerate(said))

    text, _ = read(f"WEBVTT\n\n{cues}\n", "a.vtt")

    assert text.split("\n\n") == ["[0:00:00] Ann: No.", "[0:00:01] Bob: No. No.", "[0:00:03] - Yes. - Yes."]


def test_a_long_speech_without_sentences_has_several_paragraphs() -> None:
    cues = "\n\n".join(
        f"00:{i // 60:02}:{i % 60:02}.000 --> 00:{i // 60:02}:{i % 60:02}.900\nword {i}" for i in range(999)
    )

    text, _ = read(f"WEBVTT\n\n{cues}", "a.vtt")

    assert max(map(len, text.split("\n\n"))) < 2_500
    assert all(f"word {i}" in text for i in range(999))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("WEBVTT\n\n00:00:01.000 --> soon\nLost?\n\n00:00:03.000 --> 00:00:04.000\nKept.\n", "a.vtt"),
        ("1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\nnever --> 00:00:04,000\nTwo.\n", "a.srt"),
        ("An arrow --> in a text.\n", "a.srt"),
    ],
)
def test_captions_that_cannot_be_told_apart_are_read_as_stored_and_noted(text: str, name: str) -> None:
    assert read(text, name) == (text, [BROKEN])


def test_captions_without_words_fail_by_name() -> None:
    with pytest.raises(ReadError, match="no text in this file of captions"):
        read("WEBVTT\n\n00:01.000 --> 00:02.000\n\n", "a.vtt")


def test_a_text_under_the_name_of_captions_is_read() -> None:
    assert read("Plain words.\n", "a.srt") == ("Plain words.\n", [])


def test_many_spaces_behind_a_mark_take_no_time() -> None:
    text = f"WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n<v{' ' * 200_000}\nWords.\n"

    assert read(text, "a.vtt")[0].endswith("Words.")


@given(
    st.text(alphabet="WEBVT\n \r-->:.,0123<v Ann/>{}&;NOTE\u2028", max_size=200), st.sampled_from(["a.vtt", "a.srt"])
)
def test_any_text_is_read_or_noted(text: str, name: str) -> None:
    found = convert_document(name, f"WEBVTT\n\n{text}".encode(), LIMIT)

    assert found is not None


def test_a_question_about_a_meeting_is_answered(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"]["include"] = ["**/*.vtt"]
    cli.write("standup.vtt", MEETING)
    cli.run("index")

    answer = cli.run("answer", "How often is the deployment key rotated?").stdout

    assert answer.startswith("The deployment key is rotated every 90 days & kept [1].")
