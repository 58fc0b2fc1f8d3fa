"""Pictures of scanned pages: for those who may read the artifact, of the indexed file alone, and of bounded size."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

import findingaid
from findingaid.access import Caller
from findingaid.errors import FindingAidError, NotFoundError, ReadError
from findingaid.serve.errors import problem_of
from findingaid.serve.pictures import PICTURE
from findingaid.serve.session import Session
from findingaid.sources import documents, files
from findingaid.sources.files import Files
from tests.conftest import Cli
from tests.support.documents import lettered, saved, scans

NAMES = ("kept.png", "changed.png", "gone.png", "replaced.png", "hr/secret.png")
"""Each is touched by one test alone."""


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    cli = Cli(tmp_path_factory.mktemp("pictures"))
    cli.write("letters.pdf", scans("Typed letters.", lettered("The heron waits.")))
    for name in NAMES:
        cli.write(name, saved(lettered("The fog bell")))
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs", "ocr": True}
    cli.settings["corpora"]["docs"]["access"] = [
        {"readers": ["public"]},
        {"match": "hr/", "readers": ["group:hr"]},
    ]
    time.sleep(files.RACY_NANOSECONDS / 1e9)
    assert cli.run("index").exit_code == 0
    return cli


Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def ask(cli: Cli) -> Ask:
    aid = findingaid.open(cli.config)
    session = replace(Session.of(aid), served=[PICTURE])

    def ask(name: str, page: int = 1, caller: Caller | None = None, version: str | None = None) -> dict[str, Any]:
        known = version or aid.show("kept.png" if name == "unknown.png" else name, "docs").artifact_version
        given = {"id": name, "corpus": "docs", "page": page, "artifact_version": known}
        return replace(session, caller=caller).call("picture", given)

    return ask


def picture_in(found: dict[str, Any]) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(found["picture"])))


def test_a_scanned_page_is_a_picture_with_its_size_in_the_unit_of_the_boxes(ask: Ask) -> None:
    page, picture = ask("letters.pdf", 2), ask("kept.png")

    assert (page["width"], page["height"]) == pytest.approx((350, 350), abs=1)
    assert (picture["width"], picture["height"]) == picture_in(picture).size == (700, 700)
    assert picture_in(page).size[0] > 350
    assert picture_in(page).convert("L").getextrema()[0] < 50


def test_a_page_without_recognized_text_is_not_shown(ask: Ask) -> None:
    for page in (1, 3):
        with pytest.raises(NotFoundError, match=f"page {page} has no recognized text"):
            ask("letters.pdf", page)


def test_who_may_not_read_an_artifact_is_answered_as_for_one_that_is_not_there(ask: Ask) -> None:
    assert ask("hr/secret.png", caller=Caller.of(groups=["group:hr"]))["picture"]
    said = []
    for name in ("hr/secret.png", "unknown.png"):
        with pytest.raises(FindingAidError) as raised:
            ask(name)
        problem = problem_of(raised.value)
        said.append((problem.kind, problem.status, problem.message.replace(name, "NAME")))
    assert said[0] == said[1]
    assert said[0][:2] == ("not_found", 404)


def test_another_version_has_other_pages(ask: Ask) -> None:
    with pytest.raises(NotFoundError, match="changed since version"):
        ask("kept.png", version="0" * 32)


def test_a_file_that_changed_or_is_gone_has_no_picture(cli: Cli, ask: Ask) -> None:
    cli.write("changed.png", saved(lettered("The dinner bell")))
    (cli.docs / "gone.png").unlink()

    with pytest.raises(NotFoundError, match="has changed since it was indexed"):
        ask("changed.png")
    with pytest.raises(NotFoundError, match="the file is gone"):
        ask("gone.png")


def test_a_file_that_is_replaced_while_it_is_read_has_no_picture(
    cli: Cli, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Files.page_picture

    def replace_and_read(source: Files, artifact_id: str, page: int) -> dict[str, Any]:
        cli.write("replaced.png", saved(lettered("The dinner bell")))
        return read(source, artifact_id, page)

    monkeypatch.setattr(Files, "page_picture", replace_and_read)
    with pytest.raises(NotFoundError, match="has changed since it was indexed"):
        ask("replaced.png")


def test_a_file_that_was_indexed_as_it_was_written_has_no_picture_until_the_next_run(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.write("bell.png", saved(lettered("The fog bell")))
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs", "ocr": True}
    cli.run("index")
    aid = findingaid.open(cli.config)
    given = {"id": "bell.png", "corpus": "docs", "page": 1}
    given["artifact_version"] = aid.show("bell.png").artifact_version
    session = replace(Session.of(aid), served=[PICTURE])
    with pytest.raises(NotFoundError, match="it is not known whether the file has changed"):
        session.call("picture", given)

    time.sleep(files.RACY_NANOSECONDS / 1e9)
    cli.run("index")
    assert session.call("picture", given)["width"] == 700


@pytest.mark.slow
def test_the_largest_picture_is_reduced_and_a_larger_one_refused() -> None:
    largest, larger = (saved(Image.new("1", (10_000, height), 1)) for height in (10_000, 10_001))

    found = documents.page_picture(f"a{documents.PICTURE}", largest, 1)
    assert (found["width"], found["height"]) == (10_000, 10_000)
    assert picture_in(found).size == (1_600, 1_600)
    with pytest.raises(ReadError, match="10,000 by 10,001 pixels, more than 100 million"):
        documents.page_picture(f"a{documents.PICTURE}", larger, 1)


def test_the_largest_page_of_a_pdf_is_reduced_too() -> None:
    made = io.BytesIO()
    canvas = Canvas(made, pagesize=(14_400, 14_400))
    canvas.drawString(50, 300, "wide")
    canvas.save()

    found = documents.page_picture(f"a{documents.SCAN}", made.getvalue(), 1)
    assert (found["width"], found["height"]) == pytest.approx((14_400, 14_400), rel=0.01)
    assert picture_in(found).size == (1_600, 1_600)


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7 cut short", b"no picture"])
def test_a_damaged_scan_has_no_picture(content: bytes) -> None:
    for kind in (documents.SCAN, documents.PICTURE):
        with pytest.raises(ReadError, match="damaged, or not a valid scan"):
            documents.page_picture(f"a{kind}", content, 1)


def test_without_the_packages_the_error_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_versions", lambda _: "")

    with pytest.raises(ReadError, match=r"pip install 'findingaid\[ocr\]'"):
        documents.page_picture(f"a{documents.PICTURE}", b"", 1)
    with pytest.raises(ReadError, match="not a scan"):
        documents.page_picture("a.pdf", b"", 1)
