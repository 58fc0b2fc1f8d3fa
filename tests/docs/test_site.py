"""The site of docs/ has no broken links, requests nothing from other hosts, and its reference matches the code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from lxml import html

import findingaid
from findingaid.cli import main
from findingaid.config.settings import Settings
from findingaid.errors import ArtifactError, ConfigError, FindingAidError, SynthesisError, TornError, help_on
from findingaid.explain import explanations
from findingaid.serve.capabilities import CAPABILITIES
from findingaid.serve.errors import InputError
from findingaid.serve.openapi import openapi_document
from findingaid.store import schemas
from tests.paths import ROOT
from tests.support.commands import subcommands

DOCS = ROOT / "docs"

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", DOCS, folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def pages(site: Path) -> Iterator[tuple[Path, html.HtmlElement]]:
    for path in sorted(site.rglob("*.html")):
        yield path, html.fromstring(path.read_bytes())


@slow
def test_every_link_leads_to_a_page_and_a_place_in_it(site: Path) -> None:
    named = {path: {*page.xpath("//@id")} for path, page in pages(site)}

    for path, page in pages(site):
        for link in page.xpath("//a/@href | //img/@src"):
            address, place = urldefrag(link)
            if "://" in address or address.startswith("mailto:"):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            assert target.exists(), f"{path.name}: {link}"
            assert not place or target.suffix != ".html" or unquote(place) in named[target], f"{path.name}: {link}"


@slow
def test_nothing_is_asked_of_another_host(site: Path) -> None:
    for path, page in pages(site):
        fetched = page.xpath("//script/@src | //img/@src | //iframe/@src | //link[not(@rel='canonical')]/@href")
        assert not [link for link in fetched if re.match(r"\w+:|//", link)], path.name
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", style.read_text()), style.name


@slow
def test_the_reference_has_every_setting_command_name_column_and_key(site: Path) -> None:
    def shown(name: str) -> str:
        return str(html.fromstring((site / "reference" / f"{name}.html").read_bytes()).text_content())

    shapes = openapi_document(CAPABILITIES, locked=False)["components"]["schemas"]
    assert not [key for key in Settings.model_fields if key not in shown("settings")]
    assert not [name for name in subcommands(main) if f"findingaid {name}" not in shown("cli")]
    assert not [c.description for c in CAPABILITIES if c.description not in shown("capabilities")]
    assert not [key for c in CAPABILITIES for key in c.input.model_fields if key not in shown("capabilities")]
    assert not [
        key for shape in shapes.values() for key in shape.get("properties", ()) if key not in shown("capabilities")
    ]
    assert not [name for name in findingaid.__all__ if name not in shown("python")]
    tables = shown("tables")
    assert not [column.name for table in schemas.FIXED.values() for column in table if column.name not in tables]


@slow
def test_every_page_is_in_the_table_of_contents(site: Path) -> None:
    first = html.fromstring((site / "index.html").read_bytes())
    listed = {link for link in first.xpath("//*[contains(@class, 'sidebar-tree')]//a/@href") if "#" not in link}

    assert listed == {str(path.relative_to(DOCS).with_suffix(".html")) for path in DOCS.rglob("*.md")} - {"index.html"}


def kinds_of(base: type[FindingAidError]) -> Iterator[type[FindingAidError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_of(kind)


def test_every_error_names_its_place_in_the_documentation() -> None:
    raised = [kind for kind in kinds_of(FindingAidError) if kind.__module__.startswith("findingaid.")]

    assert {InputError, ConfigError, TornError} <= set(raised)
    for kind in raised:
        assert explanations()[kind.__name__]
        assert help_on(kind("what was wrong")) == f"findingaid help {kind.__name__}"


def test_an_error_of_a_part_of_ones_own_names_the_place_of_its_kind() -> None:
    class NoMoreInkError(SynthesisError):
        pass

    assert help_on(NoMoreInkError("dry")) == "findingaid help SynthesisError"


WRITTEN = re.findall(
    r"write_table\(\"(\w+)\"", "".join(each.read_text() for each in (ROOT / "benchmarks").glob("*.py"))
)
"""Names of the tables that the benchmarks write into pages."""


def test_every_kind_of_failure_has_its_place() -> None:
    kinds = re.search(r"machine-readable: (.*?)\.\n", ArtifactError.__doc__ or "", re.DOTALL)

    assert kinds
    for kind in re.findall(r"\b[a-z_]+\b", kinds[1].replace("or for reading:", "")):
        assert explanations()[kind]


def test_every_test_that_is_named_as_a_proof_is_there() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    proofs = re.findall(r"`(test_\w+)`", (DOCS / "guarantees.md").read_text())

    assert proofs
    assert not [name for name in proofs if f"def {name}(" not in tests]


def test_every_generated_table_stands_once_between_its_comments() -> None:
    written = re.findall(r"<!-- (.+?) -->", (ROOT / "benchmarks" / "RESULTS.md").read_text())
    marks = [mark for mark in written if mark.removeprefix("end of ") in WRITTEN]

    assert marks == [mark for name in marks[::2] for mark in (name, f"end of {name}")]
    assert sorted(marks[::2]) == sorted(WRITTEN)
