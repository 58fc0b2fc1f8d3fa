"""Example with a corpus of each kind: searches with the real model find the answers shown in its README."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

import findingaid
from findingaid import FindingAid
from findingaid.cli import main
from findingaid.sources import SOURCES, files
from tests.support.web import on_loopback
from tools.transcripts import BLOCK, COLLECTIONS, commands

QUESTIONS = {
    "when does the reading room open": ("handbook", "reading-room.md"),
    "what is a volume with mould put into": ("handbook", "conservation.md"),
    "how much did heating cost last year": ("papers", "annual-report-2025.pdf"),
    "insurance of an item that is lent": ("papers", "loan-agreement.docx"),
    "what can children do on the open day": ("papers", "open-day.pptx"),
    "the first woman with a master's certificate": ("papers", "penhallow-papers.html"),
    "where did the monks boil salt": ("papers", "harbour-history.epub"),
    "does the open door make the room damp": ("papers", "humidity-room-3.ipynb"),
    "price of a certified copy of a baptism entry": ("papers", "fees-2026.csv"),
    "value of the brass sextant": ("papers", "valuation-2026.xlsx"),
    "when do the roofers put up the scaffolding": ("papers", "roof.eml"),
    "what did the harbour light burn before paraffin": ("notes", "Harbour light.md"),
    "who was allowed to ring the fog bell": ("scans", "1931-fog-bell.png"),
    "lighthouse keeper in the storm": ("letters", "1911-lighthouse-keeper.txt"),
    "convert a Julian date to the Gregorian calendar": ("code", "catalogue/dates.py"),
    "when must the flood gate be closed": ("code", "tides/alarm.go"),
    "how do I pack folders into boxes": ("code", "catalogue/boxes.py"),
    "which package reads humidity sensors": ("packages", "damp-watch"),
    "sort shelfmarks in the right order": ("packages", "shelfmark"),
    "which skill restores a damaged page": ("skills", "restore-page"),
    "which skill dates old photographs": ("skills", "describe-photograph"),
    "why did the import of parish registers fail": (
        "sessions",
        "-home-mara-catalogue/6f0d2a54-8c1b-4d0e-9a55-2f1f0f7b6c11",
    ),
    "may a film show our pictures of the lifeboat": ("requests", "R-104"),
    "who borrowed the portrait of the captain": ("loans", "L-9"),
    "who asked for the tide tables of 1862": ("visits", "14"),
    "which room had silverfish": ("rounds", "2026-01-29/3"),
    "which tool finds the shelf of an item": ("tools", "saltmarsh/locate_item"),
    "book a seat for a reader": ("tools", "saltmarsh/reserve_seat"),
    "how do wheelchairs get to the archive": ("site", "causeway.html"),
}

SCORE = re.compile(r"(?<=  )0\.\d{3}(?=  )")
"""Score of a hit, whose last digit depends on the processor."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return not_indexed(tmp_path_factory.mktemp("archive"))


def not_indexed(folder: Path) -> Path:
    """Return a copy of the example that is not indexed. Its files are settled, so that a second run reads none."""
    copied = folder / "collections"
    shutil.copytree(COLLECTIONS, copied, ignore=shutil.ignore_patterns(".findingaid"))
    time.sleep(files.RACY_NANOSECONDS / 1e9)
    return copied


@pytest.fixture(autouse=True)
def _within(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(scope="module")
def site(archive: Path) -> Iterator[str]:
    """The address of the archive's web site."""
    with on_loopback(SimpleHTTPRequestHandler, directory=archive / "site") as address:
        yield f"{address}/"


@pytest.fixture(scope="module")
def aid(archive: Path, site: str) -> FindingAid:
    """All corpora in one index, with that of site.yaml."""
    settings, own = (yaml.safe_load((archive / name).read_text()) for name in ("findingaid.yaml", "site.yaml"))
    own["corpora"]["site"]["source"]["start"] = site
    together = archive / "together.yaml"
    together.write_text(yaml.safe_dump({**settings, "corpora": settings["corpora"] | own["corpora"]}))
    return findingaid.open(together)


def run(command: str) -> Result:
    program, *arguments = shlex.split(command)
    assert program == "findingaid"
    return CliRunner().invoke(main, arguments)


def timeless(shown: str) -> str:
    """Return the output without the seconds of the tables and of the whole command."""
    lines = "\n".join(line.rstrip() for line in shown.splitlines())
    return re.sub(r" +(\d+\.\d|s)$|^took \d+\.\d s in all$", "", lines, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_transcript_is_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(not_indexed(tmp_path))
    transcript = "".join(BLOCK.findall(Path("README.md").read_text()))

    printed = [(command, run(command)) for command in commands(transcript)]

    assert len(printed) == 17
    assert all(result.exit_code == 0 for _, result in printed)
    said, shown = timeless("".join(f"$ {c}\n{result.output}" for c, result in printed)), timeless(transcript)
    assert SCORE.sub("", said) == SCORE.sub("", shown)
    assert list(map(float, SCORE.findall(said))) == pytest.approx(list(map(float, SCORE.findall(shown))), abs=0.005)


@pytest.mark.slow
def test_every_question_is_answered_among_all_corpora_by_the_artifact_that_knows(aid: FindingAid, site: str) -> None:
    aid.index()

    found = {question: aid.search(question, 1)[0] for question in QUESTIONS}

    answered = {question: (hit.corpus, hit.artifact_id.removeprefix(site)) for question, hit in found.items()}
    assert answered == QUESTIONS
    assert {corpus for corpus, _ in QUESTIONS.values()} == set(aid.corpora)


@pytest.mark.slow
def test_another_run_does_nothing(aid: FindingAid) -> None:
    aid.index()

    report = aid.index()

    assert report.ok
    assert not [name for name, corpus in report.corpora.items() if corpus.active or corpus.calls.embed]
    assert not [corpus.warnings for corpus in report.corpora.values() if corpus.warnings]
    assert aid.verify() == []


@pytest.mark.slow
def test_a_letter_in_latin1_is_read_as_it_was_written(aid: FindingAid) -> None:
    aid.index()

    assert "naïve" in aid.show("1911-lighthouse-keeper.txt", "letters").records[0].text


def test_every_kind_of_source_has_a_corpus(aid: FindingAid) -> None:
    shown = {SOURCES.name_of(type(corpus.source)) for corpus in aid.corpora.values()}

    assert shown == {*SOURCES.known()} - {"loader"}  # which needs a framework that installs much
