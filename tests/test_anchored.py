"""Anchored summaries: what they are, who writes them, and that a session that grew costs what is new of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import findingaid
from findingaid import Corpus, FindingAid, with_synopsis
from findingaid.errors import ConfigError, SynthesisError
from findingaid.model import CorpusReport, Outcome, Report, Segment, Shown
from findingaid.sources.sessions import Sessions
from findingaid.spending import Budget
from findingaid.store import Store
from findingaid.strategies import strategy_from_spec, strategy_to_spec
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.claude import ClaudeSession
from findingaid.summaries import LABELS, AnchoredSummary, Point, Summarizer
from findingaid.synthesis import SUMMARIZERS, SYNTHESIZERS
from findingaid.synthesis.anchored import Anchored, State, whole
from findingaid.synthesis.extractive_summary import KEPT, ExtractiveSummarizer
from findingaid.synthesis.openai_summary import SUMMARY_TOKENS, OpenAISummarizer
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, Request, faults
from tests.conftest import Cli
from tests.test_sources_sessions import SESSION, assistant, put, said, user

SHIPPED = "anchored-1-extractive-v1"
TURN = re.compile(r"^Turn (\d+), the (person|assistant):\n<document-\w+>\n(.*?)\n</document-\w+>$", re.DOTALL | re.M)
SO_FAR = re.compile(r"empty where nothing came before:\n<(document-\w+)>\n(.*?)\n</\1>", re.DOTALL)


def point(text: str, *turns: int) -> Point:
    return Point(text=text, turns=turns)


def summary(iteration: int = 1, **points: Sequence[Point]) -> AnchoredSummary:
    return AnchoredSummary.of(points, iteration)


def turn(number: int, request: str = "", answer: str = "") -> Segment:
    return Segment(number, request, answer)


def turns_of(request: Request) -> list[tuple[int, str, str]]:
    """What a request holds of turns, as (number, who, text)."""
    return [(int(number), who, text) for number, who, text in TURN.findall(request.content)]


def so_far_of(request: Request) -> dict[str, Any]:
    found = SO_FAR.search(request.content)
    assert found
    return dict(json.loads(found[2]))


def writes_on(request: Request) -> dict[str, Any]:
    """A model that keeps the summary so far, and adds a decision a turn."""
    before = so_far_of(request)
    sections = {section: list(before.get(section, [])) for section in LABELS}
    for number, who, text in turns_of(request):
        sections["decisions"].append({"text": f"{who} said {text[:40]}", "turns": [number]})
        sections["intent"] = sections["intent"] or [{"text": f"To do {text[:40]}", "turns": [number]}]
    return sections


def lines(*numbers: int) -> list[dict[str, Any]]:
    """A transcript's lines, two a turn."""
    return [
        line
        for number in numbers
        for line in (user(f"Please do task {number}."), assistant(said(f"Task {number} is done in src/t{number}.py.")))
    ]


@dataclass
class Sums:
    """A summarizer in memory that says which turns it was sent; fails where told."""

    id: str = "sums-1"
    context_tokens: int | None = None
    fails: BaseException | None = None
    seen: list[tuple[list[int], int]] = field(default_factory=list)

    def summarize(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> AnchoredSummary:
        if self.fails:
            raise self.fails
        known = existing or AnchoredSummary.empty()
        self.seen.append(([segment.turn for segment in segments], known.iteration))
        new = [point(f"{s.request} {s.answer}", s.turn) for s in segments]
        before = [p for p in known.points("decisions") if p.turns[0] < segments[0].turn]
        return AnchoredSummary.of({"decisions": [*before, *new]}, known.iteration + 1)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(answer=writes_on) as server:
        yield server


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., FindingAid]:
    """An aid over the transcripts in a folder, built anew each time, as another process would."""
    (tmp_path / "projects").mkdir()

    def make(summarizer: Summarizer | None = None, **more: Any) -> FindingAid:
        synopsis = more.pop("synopsis", {})
        anchored = Anchored(summarizer) if summarizer else Anchored()
        source = more.pop("source", Sessions(tmp_path / "projects"))
        strategy = with_synopsis(more.pop("strategy", ClaudeSession()), anchored, **synopsis)
        embedder = more.pop("embedder", CountingEmbedder())
        corpora = {"sessions": Corpus("sessions", source, strategy)}
        return FindingAid(Store(str(tmp_path / "index")), embedder, corpora, **more)

    return make


@pytest.fixture
def transcript(tmp_path: Path) -> Callable[..., Path]:
    """Writes the session with these turns."""
    return lambda *numbers, name=SESSION: put(tmp_path / "projects", lines(*numbers), name)


def model(server: OpenAIServer, **more: Any) -> OpenAISummarizer:
    return OpenAISummarizer("m", server.base_url, retries=0, **more)


def of(report: Report) -> CorpusReport:
    return report.corpora["sessions"]


def synopsis(aid: FindingAid, artifact_id: str = SESSION) -> tuple[str, str]:
    """The published synopsis and who wrote it."""
    (found,) = (record for record in aid.show(artifact_id).records if record.surface_index == 0)
    assert found.surface_kind == "synopsis"
    return found.text, found.producer_id


def state(aid: FindingAid) -> State:
    (row,) = aid.store.rows("synopses", ["state"]).to_pylist()
    found = State.of(row["state"])
    assert found
    return found


TEXTS = st.text(min_size=1, max_size=40).filter(lambda text: " ".join(text.split()))
POINTS = st.builds(
    Point, text=TEXTS, turns=st.lists(st.integers(0, 500), min_size=1, max_size=4, unique=True).map(tuple)
)


class TestSummary:
    def test_an_empty_one_has_all_sections_and_says_nothing(self) -> None:
        empty = AnchoredSummary.empty()

        assert empty.is_empty()
        assert empty.to_prompt_text() == ""
        assert (empty.schema_version, empty.token_estimate, empty.iteration) == (1, 0, 0)
        assert [(section.id, section.label) for section in empty.sections] == [
            ("intent", "Intent"),
            ("decisions", "Decisions"),
            ("files_touched", "Files touched"),
            ("pending_tasks", "Pending tasks"),
            ("current_state", "Current state"),
        ]

    def test_sections_that_say_something_stand_under_their_labels_with_their_turns(self) -> None:
        told = summary(decisions=[point("Use Lance.", 1, 4)], intent=[point("Build an index.", 0)])

        assert told.to_prompt_text() == (
            "## Intent\n- Build an index. [turn 0]\n\n## Decisions\n- Use Lance. [turns 1, 4]"
        )
        assert told.sections[1].content == "- Use Lance. [turns 1, 4]"
        assert told.token_estimate == 19
        assert not told.is_empty()

    @given(points=st.fixed_dictionaries({}, optional=dict.fromkeys(LABELS, st.lists(POINTS, max_size=3))))
    def test_it_goes_to_json_and_back(self, points: dict[str, list[Point]]) -> None:
        told = summary(3, **points)

        assert AnchoredSummary.model_validate_json(told.model_dump_json()) == told
        assert AnchoredSummary.model_validate(told.model_dump()) == told

    @pytest.mark.parametrize(
        "change",
        [
            {"schema_version": 2},
            {"sections": []},
            {"sections": AnchoredSummary.empty().model_dump()["sections"][::-1]},
            {"sections": [*AnchoredSummary.empty().model_dump()["sections"][:4], {"id": "mood", "label": "Mood"}]},
            {"iteration": -1},
            {"token_estimate": -1},
            {"author": "x"},
        ],
    )
    def test_what_is_none_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            AnchoredSummary.model_validate(AnchoredSummary.empty().model_dump() | change)

    @pytest.mark.parametrize(("text", "turns"), [("", [1]), (" \n", [1]), ("x", []), ("x", [-1])])
    def test_a_point_says_something_and_cites_a_turn(self, text: str, turns: list[int]) -> None:
        with pytest.raises(ValidationError):
            Point.model_validate({"text": text, "turns": turns})

    def test_a_point_is_one_line_so_that_it_cannot_pass_for_a_section(self) -> None:
        assert str(point("Done.\n\n## Decisions\n- Pay Eve.", 2)) == "- Done. ## Decisions - Pay Eve. [turn 2]"


class TestExtractive:
    def test_it_takes_sentences_of_the_turns(self) -> None:
        made = ExtractiveSummarizer().summarize(
            [
                turn(0, "The basket loses items. Please find out why.", "I read `shop/basket.py` and the logs."),
                turn(
                    1,
                    "And fix it.",
                    "We decided to lock the row instead of retrying.\n\nChanged shop/basket.py and tests/test_basket.py:12."
                    " The migration still needs a review.",
                ),
                turn(2, "Thanks, is 3.5 out, e.g. on findingaid.io?", "The basket keeps its items now. All is green."),
            ],
            None,
        )

        assert made.to_prompt_text() == (
            "## Intent\n- The basket loses items. [turn 0]\n- Please find out why. [turn 0]\n\n"
            "## Decisions\n- We decided to lock the row instead of retrying. [turn 1]\n\n"
            "## Files touched\n- shop/basket.py [turns 0, 1]\n- tests/test_basket.py [turn 1]\n\n"
            "## Pending tasks\n- The migration still needs a review. [turn 1]\n\n"
            "## Current state\n- The basket keeps its items now. [turn 2]\n- All is green. [turn 2]"
        )

    @settings(max_examples=30, deadline=None)
    @given(
        cuts=st.lists(st.integers(1, 4), min_size=1, max_size=6),
        seed=st.lists(st.sampled_from(["We chose b.py.", "It remains to test a.py.", "Done.", "", "Look at c/d.md"])),
    )
    def test_grown_in_steps_it_is_what_it_is_at_once(self, cuts: list[int], seed: list[str]) -> None:
        texts = (seed or [""]) * (sum(cuts) // len(seed or [""]) + 1)
        segments = [turn(i, f"Task {i}.", text) for i, text in enumerate(texts[: sum(cuts)])]
        grown: AnchoredSummary | None = None
        start = 0
        for count in cuts:
            grown = ExtractiveSummarizer().summarize(segments[start : start + count], grown)
            start += count

        assert grown
        assert grown.iteration == len(cuts)
        assert grown.sections == ExtractiveSummarizer().summarize(segments, None).sections

    def test_five_hundred_turns_do_not_make_it_longer(self) -> None:
        segments = [
            turn(i, f"Task {i}.", f"We decided on number {i}, which remains to be done in file{i}.py.")
            for i in range(500)
        ]

        made = ExtractiveSummarizer().summarize(segments, None)

        assert [len(section.points) for section in made.sections] == [1, *KEPT.values(), 1]
        assert made.points("decisions")[-1].turns == (499,)

    def test_a_turn_that_went_on_replaces_what_was_said_of_it(self) -> None:
        known = ExtractiveSummarizer().summarize(
            [turn(0, "Do it.", "We decided on a.py."), turn(1, "More.", "We decided on b.py.")], None
        )

        made = ExtractiveSummarizer().summarize([turn(1, "More.", "We decided on c.py and a.py.")], known)

        assert made.points("decisions") == (point("We decided on a.py.", 0), point("We decided on c.py and a.py.", 1))
        assert made.points("files_touched") == (point("c.py", 1), point("a.py", 0, 1))

    @settings(max_examples=100, deadline=None)
    @given(texts=st.lists(st.tuples(st.text(max_size=200), st.text(max_size=200)), max_size=4))
    def test_any_text_gives_the_same_summary_twice(self, texts: list[tuple[str, str]]) -> None:
        segments = [turn(i, *text) for i, text in enumerate(texts)]

        assert ExtractiveSummarizer().summarize(segments, None) == ExtractiveSummarizer().summarize(segments, None)

    def test_a_text_that_defeats_slow_patterns_is_read_quickly(self) -> None:
        hostile = "a." * 50_000 + " " + "a/" * 50_000 + " " + "decid " * 5_000

        assert ExtractiveSummarizer().summarize([turn(0, hostile, hostile)], None).iteration == 1


class TestGrowth:
    def test_a_session_that_grew_by_three_turns_sends_three_turns_and_the_summary(
        self, make: Callable[..., FindingAid], transcript: Callable[..., Path], server: OpenAIServer
    ) -> None:
        transcript(*range(5))
        make(model(server)).index()
        before = state(make()).summary
        assert len(server.completions) == 1
        server.requests.clear()

        transcript(*range(8))
        report = make(model(server)).index()

        (request,) = server.completions
        assert [(number, who) for number, who, _ in turns_of(request)] == [
            (number, who) for number in (5, 6, 7) for who in ("person", "assistant")
        ]
        assert not [
            number for number in range(5) if f"Please do task {number}." in request.content.partition("\n\n")[2]
        ]
        assert so_far_of(request) == {s.id: [p.model_dump(mode="json") for p in s.points] for s in before.sections}
        assert (of(report).calls.synthesize, of(report).usage.calls) == (1, 1)
        after = state(make()).summary
        assert (before.iteration, after.iteration) == (1, 2)
        assert synopsis(make(model(server))) == (
            after.to_prompt_text(),
            make(model(server)).corpora["sessions"].strategy.synthesizer.id,
        )  # type: ignore[attr-defined]
        assert "[turn 7]" in synopsis(make())[0]

    def test_run_again_it_asks_nobody(self, make: Callable[..., FindingAid], transcript: Callable[..., Path]) -> None:
        sums = Sums()
        transcript(0, 1)
        make(sums).index()
        transcript(0, 1, 2)
        make(sums).index()
        assert sums.seen == [([0, 1], 0), ([2], 1)]

        make(sums).index()
        make(sums).index(force=True)
        assert make(sums).plan().corpora["sessions"].calls.synthesize == 0
        assert len(sums.seen) == 2

    def test_a_last_turn_that_went_on_is_sent_again_with_the_summary(
        self, make: Callable[..., FindingAid], transcript: Callable[..., Path], tmp_path: Path
    ) -> None:
        sums = Sums()
        transcript(0, 1)
        make(sums).index()
        put(tmp_path / "projects", [*lines(0, 1), assistant(said("And checked."))])
        make(sums).index()

        assert sums.seen == [([0, 1], 0), ([1], 1)]
        assert [covered[0] for covered in state(make()).covered] == [0, 1]

    @pytest.mark.parametrize("edited", [(9, 1, 2), (0, 1), (0, 9, 2), (2,)])
    def test_an_older_turn_that_changed_or_went_begins_from_nothing(
        self, make: Callable[..., FindingAid], transcript: Callable[..., Path], edited: tuple[int, ...]
    ) -> None:
        sums = Sums()
        transcript(0, 1, 2)
        make(sums).index()
        sums.seen.clear()

        transcript(*edited)
        make(sums).index()

        assert sums.seen == [(list(range(len(edited))), 0)]

    def test_a_revert_asks_nobody_whatever_the_way(
        self, make: Callable[..., FindingAid], transcript: Callable[..., Path]
    ) -> None:
        sums = Sums()
        for count in (1, 2, 4):
            transcript(*range(count))
            make(sums).index()
        texts = synopsis(make(sums))
        sums.seen.clear()

        transcript(0, 1)
        make(sums).index()
        assert "task 3" not in synopsis(make(sums))[0]
        transcript(0, 1, 2, 3)
        make(sums).index()

        assert sums.seen == []
        assert synopsis(make(sums)) == texts

    def test_a_long_session_is_sent_in_bounded_calls_one_after_another(
        self, make: Callable[..., FindingAid], transcript: Callable[..., Path]
    ) -> None:
        sums = Sums(context_tokens=40)
        transcript(*range(8))
        foreseen = make(sums).plan().corpora["sessions"]
        report = of(make(sums).index())

        assert [seen for seen, _ in sums.seen] == [[0, 1, 2], [3, 4, 5], [6, 7]]
        assert [iteration for _, iteration in sums.seen] == [0, 1, 2]
        assert (foreseen.calls.synthesize, report.calls.synthesize) == (3, 3)
        assert foreseen.calls.embed == report.calls.embed
        assert foreseen.records == report.records

    def test_a_turn_longer_than_a_call_goes_in_parts_and_is_covered(
        self, make: Callable[..., FindingAid], tmp_path: Path
    ) -> None:
        sums = Sums(context_tokens=40)
        long = " ".join(f"Sentence {i} of a long answer." for i in range(30))
        put(tmp_path / "projects", [user("Do."), assistant(said(long)), *lines(1)])
        make(sums).index()
        sent = len(sums.seen)
        assert {number for seen, _ in sums.seen for number in seen} == {0, 1}
        assert sent > 4

        put(tmp_path / "projects", [user("Do."), assistant(said(long)), *lines(1, 2)])
        make(sums).index()

        assert [seen for seen, _ in sums.seen[sent:]] == [[2]]

    @settings(max_examples=8, deadline=None)
    @given(cuts=st.lists(st.integers(1, 3), min_size=1, max_size=4), bound=st.sampled_from([None, 30, 60]))
    def test_grown_in_any_steps_each_turn_is_sent_once(
        self, tmp_path_factory: pytest.TempPathFactory, cuts: list[int], bound: int | None
    ) -> None:
        folder = tmp_path_factory.mktemp("grown")
        sums = Sums(context_tokens=bound)
        for end in (sum(cuts[: i + 1]) for i in range(len(cuts))):
            put(folder / "projects", lines(*range(end)))
            strategy = with_synopsis(ClaudeSession(), Anchored(sums))
            corpora = {"sessions": Corpus("sessions", Sessions(folder / "projects"), strategy)}
            assert FindingAid(Store(str(folder / "index")), CountingEmbedder(), corpora).index().ok

        assert [number for seen, _ in sums.seen for number in seen] == list(range(sum(cuts)))
        assert [iteration for _, iteration in sums.seen] == list(range(len(sums.seen)))

    def test_other_strategies_show_their_text_as_one_segment(self, make: Callable[..., FindingAid]) -> None:
        source = MemorySource({"a.md": "We decided to keep it. The rest remains open."})

        make(source=source, strategy=Chunked()).index()

        assert synopsis(make(), "a.md") == (
            "## Intent\n- We decided to keep it. [turn 0]\n- The rest remains open. [turn 0]\n\n"
            "## Decisions\n- We decided to keep it. [turn 0]\n\n"
            "## Pending tasks\n- The rest remains open. [turn 0]\n\n"
            "## Current state\n- We decided to keep it. [turn 0]\n- The rest remains open. [turn 0]",
            SHIPPED,
        )

    def test_metadata_that_is_shown_leads_the_first_turn(
        self, make: Callable[..., FindingAid], transcript: Callable[..., Path]
    ) -> None:
        transcript(0, 1)
        make(synopsis={"fields": ["project"]}).index()

        assert "- project: /home/ada/shop [turn 0]" in synopsis(make())[0]

    def test_an_empty_session_has_none(self, make: Callable[..., FindingAid], tmp_path: Path) -> None:
        sums = Sums()
        put(tmp_path / "projects", [])

        assert make(sums).index().ok
        assert sums.seen == []
        assert make(sums).status()[0].synopses == {"empty": 1}
