"""Plans, progress and results say how long things take."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal

import pytest
from rich.progress import Progress

from findingaid import FindingAid
from findingaid.cli.printing import Pace
from findingaid.indexing.forecast import WORTH_MEASURING
from findingaid.model import Vectors
from findingaid.reports import duration
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import Cli, text_about
from tests.support.documents import lettered, scans

SECONDS_A_TEXT = 0.002
MANY = MemorySource({f"{n}.md": text_about(f"topic {n}") for n in range(WORTH_MEASURING)})


class LocalEmbedder(CountingEmbedder):
    """Embedder of this machine with a known speed."""

    local: Literal[True] = True

    def embed(self, texts: Sequence[str]) -> Vectors:
        time.sleep(SECONDS_A_TEXT * len(texts))
        return super().embed(texts)


def test_a_plan_measures_an_embedder_of_this_machine(make_aid: Callable[..., FindingAid]) -> None:
    report = make_aid(source=MANY, embedder=LocalEmbedder(), synthesizer=None).plan()

    texts = report.corpora["docs"].calls.embed
    assert texts >= WORTH_MEASURING
    assert report.embed_seconds is not None
    assert SECONDS_A_TEXT * texts <= report.embed_seconds < 20 * SECONDS_A_TEXT * texts


def test_a_plan_never_calls_an_embedder_that_may_cost_money(make_aid: Callable[..., FindingAid]) -> None:
    embedder = CountingEmbedder()

    report = make_aid(source=MANY, embedder=embedder, synthesizer=None).plan()

    assert report.embed_seconds is None
    assert embedder.seen == []


def test_a_plan_of_few_texts_loads_no_model(make_aid: Callable[..., FindingAid], source: MemorySource) -> None:
    embedder = LocalEmbedder()

    assert make_aid(source=source, embedder=embedder).plan().embed_seconds is None
    assert embedder.seen == []


def test_a_plan_prints_the_time_for_embedding(cli: Cli) -> None:
    del cli.settings["embedder"]
    for n in range(WORTH_MEASURING):
        cli.write(f"{n}.md", f"text {n}")

    said = cli.run("plan").stdout

    assert re.search(r"^embedding 100 texts takes about \d+ \w+ here \([\d,]+ a second, ", said, re.MULTILINE)


def test_a_plan_prints_the_time_for_scans(cli: Cli) -> None:
    cli.write("heron.pdf", scans("Typed letters.", lettered("The heron waits."), lettered("Third scan")))
    source = {"kind": "files", "root": "docs"}
    cli.settings["corpora"] = {"typed": {"source": source}, "scanned": {"source": source | {"ocr": True}}}

    said = cli.run("plan").stdout

    lines = re.findall(
        r"^(.*): reading it, with the text of (\d+) pages to recognize, takes about \d+ \w+ here", said, re.MULTILINE
    )
    assert lines == [("scanned", "2")]
    assert cli.json("plan")["corpora"]["scanned"]["seconds"] > 0


def test_the_seconds_in_all_are_those_of_the_process(cli: Cli) -> None:
    code = "import time; time.sleep(1.5); from findingaid.cli.printing import seconds_since_start as s; print(s())"

    assert float(subprocess.check_output([sys.executable, "-c", code], text=True)) >= 1.5
    assert re.search(r"^took \d+\.\d s in all$", cli.run("plan").stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("done", "whole", "said"), [(0, True, ""), (100, True, "10.0/s, about 5 minutes left"), (100, False, "10.0/s")]
)
def test_progress_says_its_rate_and_the_time_left_if_the_total_is_known(done: int, whole: bool, said: str) -> None:
    now = 0.0
    bars = Progress(Pace(), get_time=lambda: now, disable=True)
    task = bars.add_task("docs: embeddings", total=3_100, whole=whole)
    now = 10.0
    bars.update(task, advance=done)

    assert Pace().render(bars.tasks[0]).plain == said


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 second"), (20, "20 seconds"), (200, "3 minutes"), (9_000, "2.5 hours")]
)
def test_a_time_is_said_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
