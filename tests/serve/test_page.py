"""Search page in a real browser, with a real server and index: display, input and accessibility."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from findingaid.sources import files
from findingaid.testing import OpenAIServer, faults
from tests.conftest import Cli, openai, text_about
from tests.support.deployment import ROOT, until
from tests.support.documents import lettered, saved, scans
from tests.support.left_out import ALSO_NOTED, FAILED, NOTED, SKIPPED, write_every_format
from tests.support.serving import listens

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("CI") and not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="needs Debian's chromium and chromium-driver",
    ),
]

DAY = 86_400
DESK, PHONE, SMALL = (1400, 900), (390, 780), (360, 640)
WIDE = "return document.documentElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth"
SOON = 30

HOSTILE = """---
title: "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
"<b>field</b>": "</option><img src=x onerror=window.owned=1>"
---
# <svg onload=window.owned=1>

Tokens of a hostile page expire </p><iframe srcdoc="<script>top.owned=1</script>"></iframe><img src=x
onerror="window.owned=1"> and [a link](javascript:window.owned=1) says so. "onmouseover="window.owned=1" &lt;b&gt;
"""
HOSTILE_NAME = '"><img src=x onerror=window.owned=1> \u202egnp.md'

PARCELS = "\n\n".join(
    f"## Day {day}\n\nA parcel of tokens was sent 🚀 on day {day}. {'It came.' * 30}" for day in range(60)
)

CODE = """\
def brew(minutes):
    return minutes


def pour(cups):
    return cups  # saffron
"""
ONE_LINE = " ".join(f"crate{n % 977}" for n in range(60_000)) + " The green heron fishes. " + "crate " * 60_000
GUIDE = """\
---
title: Kiln guide
---
# Kiln guide

Fire the *first* kiln **slowly** 🚀, see [the maker](https://kiln.example/a_b), [next page](next.md) and [ref].

### Steps

1. Load &amp; close
2. Heat:
   > to `900` degrees

   ```sh
   kiln --heat
     900
   ```
- [x] vents open

| glaze | cone | note |
|---|:-:|---|
| ash |  | a \\| b |
| celadon | 10 |

![the kiln](https://kiln.example/kiln.png) <b onclick="window.owned=1">bold</b>

[ref]: https://kiln.example/ref
"""
ARABIC = "# تقرير\n\nتنتهي صلاحية الرموز بعد ساعة (auth).\n"  # noqa: RUF001  # it is Arabic
PLACE = 640
"""Pixels that a piece of a text takes that is out of view."""

SESSIONS = ROOT / "examples" / "collections" / "sessions"

COLOURS = """
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = (colour) => colour.slice(0, 3).map((c) => linear(c / 255))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const colour = rgb(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
};
const ratio = (one, other) => {
  const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
};
"""

CONTRAST = (
    COLOURS
    + """
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = {};
while (texts.nextNode()) {
  const node = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !node.checkVisibility() || node.closest("option")) continue;
  const by = ratio(rgb(getComputedStyle(node).color), behind(node));
  if (by < 4.5) found[texts.currentNode.data.trim().slice(0, 40)] = by;
}
return found;
"""
)
"""Return texts whose contrast with the background is lower than WCAG AA requires."""


EDGES = (
    COLOURS
    + """
return [...document.querySelectorAll("#ask :is(input[type=search], select, button:not(.quiet), label > span)")]
  .filter((one) => one.checkVisibility())
  .filter((one) => ratio(rgb(getComputedStyle(one).borderTopColor), behind(one.parentElement)) < 3)
  .map((one) => one.outerHTML);
"""
)
"""Return controls whose edges have too little contrast (WCAG AA)."""


class Page:
    """The page in a browser, as a person has it before them."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def waits(self, look: Callable[[], Any], problem: str) -> None:
        until(look, lambda: f"{problem}: {self.text[:3000]}", SOON)

    def open(self, **state: Any) -> None:
        """Open the page at an address and wait until it shows all results."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}/?{urlencode(state, doseq=True)}")
        if "q" in state:
            self.shows("best first")
        self.waits(lambda: "Published" in self.texts("#state")[0], "the state of the index is not known")

    def open_filters(self) -> None:
        for closed in ("#more", "#advanced"):
            if self.one(closed).get_attribute("open") is None:
                self.one(f"{closed} > summary").click()

    def back_in_sight(self) -> None:
        """The person comes back to this tab."""
        self.run("document.dispatchEvent(new Event('visibilitychange'))")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    @property
    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    @property
    def query(self) -> str:
        return str(self.run("return location.search"))

    @property
    def focused(self) -> str:
        """Return the id of the focused element, or its text if it has no id."""
        return str(self.run("const at = document.activeElement; return at.id || at.innerText"))

    def shows(self, *texts: str) -> None:
        self.waits(lambda: all(text in self.text for text in texts), f"{texts} are not in")

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        """Return the first element of a selector, once it is there."""
        self.waits(lambda: self.all(selector), f"no {selector}")
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return list(
            self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", selector)
        )

    def labels(self, selector: str) -> list[str]:
        """Return the texts of elements, each on one line."""
        return [" ".join(text.split()) for text in self.texts(selector)]

    def type(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def passage(self) -> Any:
        """The marked passage of the opened artifact, once it is there."""
        until(lambda: bool(self.all("#artifact .passage")), "no passage is marked")
        return self.one("#artifact .passage")

    def opens_first(self) -> Any:
        """The passage of the first result, opened."""
        self.one("#hits h3 a").click()
        return self.passage()

    def in_view(self, found: Any) -> bool:
        script = "const at = arguments[0].getBoundingClientRect(); return at.top >= 0 && at.top < innerHeight"
        return bool(self.run(script, found))

    def violations(self) -> list[str]:
        """Return the violations of the page's policy since the last call."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        return [message for message in said if "Security Policy" in message]

    def looks(self, size: tuple[int, int] = DESK, scheme: str = "light") -> None:
        """Emulate a screen of this size with a light or dark colour scheme."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size != DESK}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-quic", "no-first-run"):
        options.add_argument(f"--{argument}")
    for argument in ("disable-sync", "disable-background-networking", "disable-component-update"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of an index with claims and synopses, hostile artifacts and a failed one."""
    cli = Cli(tmp_path_factory.mktemp("page"))
    cli.write("auth.md", "# Access\n\nAccess tokens expire after 15 minutes.\n\nRefresh tokens expire after 30 days.\n")
    for topic in ("ledger", "vector", "reader"):
        cli.write(f"{topic}.md", text_about(topic, f"{topic} again"))
    cli.write("parcels.md", PARCELS)
    cli.write(HOSTILE_NAME, HOSTILE)
    cli.write("broken.md", b"\x00broken")
    notes = cli.folder / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text("# Tea\n\nTea is brewed for four minutes.\n")
    odd = cli.folder / "odd"
    odd.mkdir()
    (odd / "tools.py").write_text(CODE)
    (odd / "haul.md").write_text(ONE_LINE)
    (odd / "arabic.md").write_text(ARABIC)
    (odd / "guide.md").write_text(GUIDE)
    deep = cli.folder / "many" / "box" / "deep"
    deep.mkdir(parents=True)
    for n in range(14):
        ((deep if n < 4 else deep.parent) / f"{n}.md").write_text(f"# Box {n}\n\nA parcel of tokens, number {n}.\n")
    files = {"kind": "files", "include": ["**/*.md"], "unreadable": "fail"}
    cli.settings["corpora"] = {
        "docs": {
            "source": {**files, "root": "docs"},
            "strategy": {"name": "Chunked", "chunk_size": 300, "overlap": 40},
            "synopsis": True,
            "claims": True,
        },
        "notes": {"source": {**files, "root": "notes"}},
        "many": {"source": {**files, "root": "many"}},
        "odd": {"source": {**files, "root": "odd", "include": ["*"]}},
        "sessions": {"source": {"kind": "sessions", "root": str(SESSIONS)}, "strategy": {"name": "ClaudeSession"}},
    }
    cli.settings["serve"] = {"dagster_url": "https://dagster.example/"}
    cli.run("index")
    return cli.config


@pytest.fixture(scope="module")
def page(driver: Any, indexed: Path) -> Iterator[Page]:
    with served(indexed) as address:
        yield Page(driver, address)


@pytest.fixture(scope="module")
def page_of_left_out(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    cli = write_every_format(tmp_path_factory.mktemp("every"))
    cli.run("index")
    with served(cli.config) as address:
        yield Page(driver, address)


@pytest.fixture(scope="module")
def scanned(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of scans, of which bell.png changed after it was indexed."""
    cli = Cli(tmp_path_factory.mktemp("scans"))
    cli.write("heron.pdf", scans("Typed letters.", lettered("The heron waits.")))
    cli.write("bell.png", saved(lettered("The fog bell")))
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs", "ocr": True}
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "Chunked", "chunk_size": 30, "overlap": 0}
    time.sleep(files.RACY_NANOSECONDS / 1e9)
    cli.run("index")
    cli.write("bell.png", saved(lettered("The dinner bell")))
    with served(cli.config) as address:
        yield Page(driver, address)


@pytest.fixture(autouse=True)
def _as_at_a_desk(driver: Any) -> None:
    Page(driver, "").looks()


def test_a_search_shows_passages_with_the_words_of_the_query_marked(page: Page) -> None:
    page.open()
    page.type("when do access tokens expire\n")
    page.shows("Access", "auth.md", "best first")

    first = page.one("#hits li")
    assert {"tokens", "expire"} <= {mark.text for mark in first.find_elements("css selector", "mark")}
    assert "q=when+do+access+tokens+expire" in page.query


def test_an_excerpt_of_markdown_is_without_most_of_its_marks(page: Page) -> None:
    page.open()
    table = "| a | b |\n| --- | --- |\n| **one** | [two](three.md) |"
    text = f"---\ntitle: x\n---\n# Words\n\n{table}\n"
    hit = {"corpus": "c", "artifact_id": "a", "record_id": "r", "surface_kind": "chunk", "span": None, "score": 1}
    hit |= {"route": "", "weight": 1, "ranks": [], "metadata": {"media_type": "text/markdown"}, "text": text}
    script = """
    const [hit, done] = arguments;
    import("/page/results.js").then(({ item }) => {
      const words = { stems: new Set(), pieces: [] };
      done(["text/markdown", "text/plain"].map((media_type) =>
        item([{ ...hit, metadata: { media_type } }], words, 1).querySelector(".text").textContent)
        .map((text) => text.split(/\\s+/).join(" ")));
    })"""

    markdown, plain = page.driver.execute_async_script(script, hit)

    assert markdown == "a · b · one · two"
    assert plain == " ".join(text.split())


def test_an_address_has_all_of_a_search_and_of_what_is_opened(page: Page) -> None:
    page.open(q="tokens", mode="lexical", corpus="docs", route="boost")
    page.opens_first()
    address, results = page.driver.current_url, page.texts("#hits h3")
    page.driver.get("about:blank")

    page.driver.get(address)
    page.passage()

    page.waits(lambda: page.texts("#hits h3") == results, "other results")
    assert page.one("input[name=mode]:checked").get_attribute("value") == "lexical"
    assert page.one("#corpora input:checked").get_attribute("value") == "docs"
    assert page.one("#route").get_attribute("value") == "boost"


def test_back_closes_what_was_opened_and_then_undoes_the_search(page: Page) -> None:
    page.open(q="tea")
    page.one("#q").send_keys(" brewed\n")
    page.waits(lambda: "tea+brewed" in page.query, "no search")
    page.shows("best first")
    page.opens_first()

    page.driver.back()
    page.waits(lambda: not page.all("#artifact[open]"), "the artifact stays open")
    page.driver.back()

    page.waits(lambda: page.one("#q").get_attribute("value") == "tea", "the query before is not there")


def test_corpora_and_fields_narrow_a_search(page: Page) -> None:
    page.open(q="tokens tea minutes")
    page.open_filters()
    page.one("#corpora input[value=notes] + span").click()
    page.waits(lambda: "corpus=notes" in page.query, "no corpus in the address")
    page.waits(lambda: page.texts("#hits h3") == ["Tea"], "not the one of notes")

    page.one("#corpora input[value=notes] + span").click()
    page.one("#add").click()
    field, how = page.all("#conditions li select")
    choose(field, "path")
    field, how = page.all("#conditions li select")
    choose(how, "starts with")
    page.one("#conditions input").send_keys("auth\t")

    page.waits(lambda: "where=" in page.query, "no condition in the address")
    page.shows("Filters · 1 condition", "best first")
    assert all("auth.md" in facts for facts in page.texts("#hits .facts"))


def test_a_filter_that_finds_nothing_or_is_wrong_says_so(page: Page) -> None:
    page.open()
    condition = json.dumps(["path", "=", "it's not there"])
    page.driver.get(f"{page.address}/?{urlencode({'q': 'tokens', 'where': condition})}")
    page.shows("Nothing matches.", "Try other words")
    page.one("#try button").click()
    page.shows("best first")
    assert "where=" not in page.query

    page.driver.get(f"{page.address}/?{urlencode({'q': 'tokens', 'where': json.dumps(['nowhere', '=', '1'])})}")
    page.shows("no field 'nowhere'")


def test_each_result_says_why_it_is_there(page: Page) -> None:
    page.open(q="tokens expire", corpus="docs", route="collapsed")
    first = page.one("#hits li details")
    first.find_element("css selector", "summary").click()

    page.waits(lambda: "synopsis of docs/" in first.text, "no synopsis")
    assert "by words #1" in first.text
    assert "Found through a synopsis:" in first.text
    said = page.one(".seed p + p").text
    page.one(".seed a").click()
    assert page.passage().text == said


def test_an_opened_artifact_shows_all_of_its_text_with_the_passage_in_view(page: Page) -> None:
    page.open(q="day 41", mode="lexical", corpus="docs")
    passage = page.opens_first()

    assert passage.text == "Day 41"
    assert page.in_view(passage)
    shown = page.run(
        "return [...document.querySelectorAll('#artifact .markdown > *')].map((one) => one.textContent.trim())"
    )
    assert shown == [block.removeprefix("## ") for block in PARCELS.split("\n\n")]


def test_a_line_of_any_length_opens_with_its_passage_in_view(page: Page) -> None:
    page.open(q="green heron fishes", corpus="odd", mode="lexical")
    passage = page.opens_first()

    assert "green heron fishes" in passage.text
    assert page.in_view(passage)
    assert page.run("return document.querySelector('#artifact .markdown').textContent") == ONE_LINE
    heights = page.run("return [...document.querySelectorAll('.piece')].map((one) => one.offsetHeight)")
    assert heights.count(PLACE) > len(heights) * 0.9  # not laid out


def test_markdown_is_rendered_with_the_passage_marked(page: Page) -> None:
    page.open(q="celadon glaze cone", corpus="odd", mode="lexical")
    page.opens_first()
    body = "#artifact-body .markdown"

    def shown(selector: str) -> list[str]:
        return [" ".join(text.split()) for text in page.texts(f"{body} {selector}")]

    assert shown("h4") == ["Kiln guide"]
    assert shown("h5") == ["Steps"]  # no level is left out
    assert shown("em, strong, :not(pre) > code") == ["first", "slowly", "900"]
    assert shown("ol > li")[0] == "Load & close"
    assert [one.get_property("textContent") for one in page.all(f"{body} ol pre")] == ["kiln --heat\n  900"]
    assert shown("ul > li") == ["☑ vents open"]
    assert shown(".fields th, .fields td") == ["title", "Kiln guide"]
    assert shown("thead th") == ["glaze", "cone", "note"]
    assert [shown(f"thead + tbody tr:nth-child({n}) td") for n in (1, 2)] == [
        ["ash", "", "a | b"],
        ["celadon", "10", ""],
    ]
    links = [link.get_attribute("href") for link in page.all(f"{body} a")]
    assert links == [f"https://kiln.example/{path}" for path in ("a_b", "ref", "kiln.png")]
    assert 'onclick="window.owned=1">bold</b>' in page.text
    assert shown("td .passage")[-2:] == ["celadon", "10"]
    assert page.in_view(page.passage())


VAULT = {
    "Home.md": """---
tags: [house, "<b>#x</b>"]
aliases:
  - Start
  - <img src=x onerror=window.owned=1>
created: 2024-03-01
---
# Home

The [[Boiler#Pump|pump <img src=x onerror=window.owned=1>]] and [[plan]], [notes](rooms/My%20notes.md), [[Missing]].

`[[Boiler]]` and ![[Boiler]], [[javascript:alert(1)]].
""",
    "rooms/Boiler.md": "# Boiler\n\nA Vaillant.\n\nIt is named on the page [[Start]].\n",
    "rooms/My notes.md": "# My notes\n\nUp to [home](../Home.md) and [[Home]].\n",
    "Plan.md": "# Plan\n\nThere is no plan.\n",
}


def test_wiki_links_backlinks_and_front_matter_of_a_note_are_shown(driver: Any, tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    (cli.folder / "docs" / "rooms").mkdir(parents=True)
    for name, text in VAULT.items():
        cli.write(name, text)
    cli.run("index")
    with served(cli.config) as address:
        page = Page(driver, address)
        page.open(artifact="Home.md", **{"in": "docs"})
        page.shows("Linked from: 2 texts")

        cells = page.texts("#artifact-body .fields :is(th, td)")
        assert cells[:2] == ["tags", '[house, "<b>#x</b>"]']
        assert cells[4:] == ["created", "2024-03-01"]
        links = [(link.text, link.get_attribute("title")) for link in page.all("#artifact-body .markdown a")]
        assert [title for _, title in links] == ["Boiler", "plan", "rooms/My%20notes.md", "Boiler"]
        assert [text for text, _ in links][1:] == ["plan", "notes", "Boiler"]
        assert page.texts("#artifact-body .markdown :not(pre) > code") == ["[[Boiler]]"]
        assert page.run("return window.owned") is None
        assert page.all("#artifact-body img") == []

        page.run("document.querySelector('.backlinks details').open = true")
        assert page.texts(".backlinks a") == ["Boiler", "My notes"]
        page.one(".backlinks a").click()
        page.shows("A Vaillant.")
        assert "named on the page" in page.passage().text
        page.one("#artifact-body .markdown a").click()
        page.shows("The pump")
        assert page.violations() == []


@pytest.mark.parametrize(
    "quote", ["slowly 🚀, see the maker", "Heat: to 900 degrees kiln --heat 900", "a | b", "Load & close"]
)
def test_a_span_of_an_artifact_is_marked_wherever_its_markdown_puts_it(page: Page, quote: str) -> None:
    source = {
        "slowly 🚀, see the maker": "slowly** 🚀, see [the maker",
        "a | b": "a \\| b",
        "Load & close": "Load &amp; close",
    }
    inner = "Heat:\n   > to `900` degrees\n\n   ```sh\n   kiln --heat\n     900"
    text = source.get(quote, inner)
    start = GUIDE.index(text)
    page.driver.get(
        f"{page.address}/?{urlencode({'artifact': 'guide.md', 'in': 'odd', 'span': f'{start}-{start + len(text)}'})}"
    )
    page.passage()

    marked = page.run("return [...document.querySelectorAll('.passage')].map((one) => one.textContent)")
    assert " ".join(" ".join(marked).split()).replace(" ,", ",") == quote
    assert "changed since" not in page.text


def test_a_passage_that_markdown_does_not_show_is_marked_in_the_source(page: Page) -> None:
    start = GUIDE.index("https://kiln.example/a_b")
    page.driver.get(
        f"{page.address}/?{urlencode({'artifact': 'guide.md', 'in': 'odd', 'span': f'{start}-{start + 24}'})}"
    )

    assert page.passage().text == "https://kiln.example/a_b"
    assert page.one("#artifact pre").get_property("textContent") == GUIDE


@pytest.mark.parametrize(
    "text",
    [
        "[a](" * 30_000,
        "[[a" * 20_000,
        "[[a]] " * 10_000,
        "*a_ " * 50_000,
        "> " * 5_000 + "x",
        "- " * 3_000 + "x",
        ("*a_ " * 4_000 + "\n\n") * 60,
    ],
)
def test_markdown_made_to_stall_the_page_does_not(page: Page, text: str) -> None:
    page.open()
    script = """
    const [text, done] = arguments;
    import("/page/markdown.js").then(({ markdownNodes }) => {
      const nodes = markdownNodes(text, (from, to) => [text.slice(from, to)], () => null);
      done(nodes.map((node) => node.textContent).join("").length);
    });"""

    assert page.driver.execute_async_script(script, text) >= len(text) / 4  # within the driver's limit of 30 s


def test_code_is_shown_as_it_stands_between_its_records_too(page: Page) -> None:
    page.open(q="saffron pour cups", corpus="odd", mode="lexical")
    page.opens_first()

    assert page.run("return document.querySelector('#artifact pre').textContent") == CODE
    assert "mono" in page.one(".piece").value_of_css_property("font-family")


def test_what_runs_from_right_to_left_does(page: Page) -> None:
    page.open(q="تنتهي", corpus="odd", mode="lexical")
    page.opens_first()

    ends = """
    const at = document.querySelector("#artifact mark mark").getBoundingClientRect();
    const within = document.querySelector("#artifact .piece").getBoundingClientRect();
    return [at.left - within.left, within.right - at.right]"""
    left, right = page.run(ends)
    assert right < left  # the word is at the beginning of its line


def test_turns_of_a_session_are_each_a_text_of_their_own(page: Page) -> None:
    page.open(q="same names spelled differently merged", corpus="sessions", mode="lexical")
    first = page.texts("#hits h3")[0]
    passage = page.opens_first()

    assert first == "Import of the parish registers"
    assert passage.text == "Good. Do the same names spelled differently get merged?"
    assert page.texts("#artifact .block h3") == ["user_prompt", "assistant_summary"] * 2


def test_records_whose_texts_only_seem_to_overlap_are_not_taken_for_one(page: Page) -> None:
    page.open()
    texts = [("one text of its own", 0), ("another text, also its own", 0), ("its own, and more of it", 19)]
    records = [
        {"record_id": str(i), "surface_kind": "part", "text": text, "span": [start, start + len(text)]}
        | {"producer_id": "", "metadata": {}}
        for i, (text, start) in enumerate(texts)
    ]
    view = {"corpus": "c", "artifact_id": "a", "artifact_version": "1", "records": records, "notes": []}
    script = """
    const [view, done] = arguments;
    import("/page/artifact.js").then(({ artifactNodes }) => {
      const [wanted, words] = [{ record: "2", span: null }, { stems: new Set(), pieces: [] }];
      const nodes = artifactNodes(view, null, wanted, words, { refersTo: [], referredBy: [] });
      const section = document.createElement("section");
      section.append(...nodes);
      done([...section.querySelectorAll("pre, .passage")].map((one) => one.textContent));
    })"""

    assert page.driver.execute_async_script(script, view) == [
        "one text of its own",
        "another text, also its own, and more of it",
        "its own, and more of it",
    ]


def test_a_link_to_what_has_changed_since_says_so(page: Page) -> None:
    page.open(q="tea brewed", corpus="notes")
    page.opens_first()
    address = page.driver.current_url
    assert "changed since" not in page.text

    page.driver.get(re.sub(r"span=\d+-\d+", "span=3-9", address))
    page.shows("This artifact has changed since this search. The marked passage may be another one.")
    page.driver.get(re.sub(r"record=\w+", "version=before", address))
    page.shows("This artifact has changed since this search. The marked passage may be another one.")
    page.driver.get(re.sub(r"record=\w+", "record=gone", address))

    page.shows("This artifact has changed since this search. It no longer contains the passage.")
    assert page.all("#artifact .passage") == []


def test_more_results_follow_the_first(page: Page) -> None:
    page.open(q="parcel of tokens", corpus="many")
    assert len(page.all("#hits > li")) == 10

    page.one("#further").click()
    page.waits(lambda: len(page.all("#hits > li")) == 14, "no more results")

    links = [link.get_attribute("href") for link in page.all("#hits h3 a")]
    assert len(set(links)) == 14
    assert page.run("return document.activeElement.href") == links[10]
    assert not page.one("#further").is_displayed()


def test_results_are_grouped_by_file_with_the_others_on_request(page: Page) -> None:
    page.open(q="parcel of tokens was sent on day 41", mode="lexical", corpus="docs")
    titles = page.texts("#hits h3")
    summary = page.one("#hits .others summary")

    assert len(set(titles)) == len(titles)
    assert re.fullmatch(r"\+\d+ more in this file", summary.text)
    summary.click()
    others = page.all("#hits .others[open] li")
    assert len(others) == int(re.findall(r"\d+", summary.text)[0])
    other = others[0].find_element("css selector", "a")
    heading = other.text
    other.click()
    assert heading in page.passage().text


def test_a_synopsis_that_repeats_its_passages_takes_no_row(page: Page) -> None:
    page.open()
    hit = {"corpus": "c", "artifact_id": "a", "record_id": "r", "surface_kind": "chunk", "metadata": {}}
    texts = [("Tokens expire. Keys rotate!", None), ("# Head\n\nTokens expire.", [0, 9]), ("Keys\nrotate!", [9, 20])]
    hits = [{**hit, "text": text, "span": span} for text, span in texts]
    script = """
    const [hits, done] = arguments;
    import("/page/results.js").then(({ grouped }) => done(grouped(hits).map((group) => group.length)));"""

    assert page.driver.execute_async_script(script, hits) == [2]
    assert page.driver.execute_async_script(script, hits[:2]) == [2]
    assert page.driver.execute_async_script(script, [*hits, {**hits[0], "artifact_id": "b"}]) == [2, 1]


def test_weak_matches_are_called_weak(page: Page) -> None:
    page.open()
    hit = {"corpus": "c", "artifact_id": "a", "record_id": "r", "surface_kind": "chunk", "metadata": {}, "span": None}
    hit |= {"text": "x", "score": 0.1, "ranks": [], "weight": 1, "route": "", "weak": True}
    script = """
    const [hit, done] = arguments;
    import("/page/results.js").then(({ item }) => done(item([hit], { stems: new Set(), pieces: [] }, 1).innerText));"""

    assert "weak match" in page.driver.execute_async_script(script, hit)
    assert "weak" not in page.driver.execute_async_script(script, {**hit, "weak": False})


def test_a_source_that_changed_or_is_gone_is_marked_at_its_hits(page: Page) -> None:
    page.open()
    hit = {"corpus": "c", "artifact_id": "a", "record_id": "r", "surface_kind": "chunk", "metadata": {}, "span": None}
    hit |= {"text": "x", "score": 0.1, "ranks": [], "weight": 1, "route": "", "weak": False}
    script = """
    const [hit, done] = arguments;
    import("/page/results.js").then(({ item }) => done(item([hit], { stems: new Set(), pieces: [] }, 1).innerText));"""

    def shown(fresh: str | None, note: str = "") -> str:
        return str(page.driver.execute_async_script(script, {**hit, "fresh": fresh, "fresh_note": note}))

    assert "source changed since noon" in shown("changed", "since noon")
    assert "source gone" in shown("gone")
    assert not any("source" in shown(fresh) for fresh in (None, "current", "unknown"))


def test_code_keeps_its_lines_in_results(page: Page) -> None:
    page.open(q="saffron pour cups", corpus="odd", mode="lexical")

    shown = page.one("#hits pre.code")
    assert "def pour(cups):\n    return cups  # saffron" in shown.get_attribute("textContent")
    assert "mono" in shown.value_of_css_property("font-family")
    assert page.run("return getComputedStyle(arguments[0]).whiteSpaceCollapse", shown) == "preserve"


@pytest.mark.parametrize(("width", "highest"), [(1280, 220), (390, 260)])
def test_results_come_first_and_active_filters_are_named_in_one_line(page: Page, width: int, highest: int) -> None:
    page.driver.set_window_size(width, 900)
    page.open(q="tokens", corpus="docs", mode="lexical")

    assert page.run("return document.querySelector('.hit').getBoundingClientRect().top") < highest
    assert page.labels("#more > summary") == ["Filters · docs · by words"]
    assert "score" not in " ".join(page.texts("#hits .facts"))
    page.open()
    page.waits(lambda: "Notes 24" in page.labels("#kinds label"), "the start does not show what is here")
    page.waits(lambda: "texts to search" in page.text, "the start does not count what is here")
    assert not page.one("#route").is_displayed()


def test_enter_on_a_question_answers_it_and_on_words_only_searches(page: Page) -> None:
    page.open()
    page.one("#q").send_keys("refresh tokens\n")
    page.shows("best first")
    assert "answer=" not in page.query

    page.one("#q").clear()
    page.one("#q").send_keys("refresh tokens expire when?\n")

    page.shows("Refresh tokens expire after 30 days", "best first")
    assert "answer=1" in page.query


def test_an_unknown_address_is_a_page_for_people(page: Page) -> None:
    page.driver.get(f"{page.address}/nothing/here")

    page.shows("There is nothing at this address.")
    page.one("a").click()
    page.waits(lambda: page.all("#q"), "no way back to the search")


def test_facets_show_counts_and_narrow_a_search(page: Page) -> None:
    page.open(q="tokens")
    page.open_filters()
    page.waits(lambda: "many 14" in page.labels("#corpora label"), "no counts")
    assert "Notes 24" in page.labels("#kinds label")
    page.one("#folders input[value='box/'] + span").click()
    page.waits(lambda: "folder=box%2F" in page.query, "no folder in the address")
    page.waits(lambda: page.labels("#corpora label") == ["many 14"], "the counts of corpora are not narrowed")
    page.waits(lambda: page.labels("#folders label") == ["box/", "deep/ 4"], "the folders within are not offered")

    page.one("#folders input[value='box/deep/'] + span").click()
    page.waits(lambda: len(page.all("#hits > li")) == 4, "the folder does not narrow the search")
    page.one("#folders input[value='box/'] + span").click()
    page.waits(lambda: "folder=" not in page.query, "the folder stays")
    page.waits(lambda: "Code 1" in page.labels("#kinds label"), "the counts stay narrowed")

    page.one("#kinds input[value='Code'] + span").click()
    page.waits(lambda: page.texts("#hits h3") == ["tools.py"], "the kind does not narrow the search")
    page.driver.back()
    page.waits(lambda: not page.all("#kinds input:checked"), "Back does not undo the kind")


def test_a_kind_of_no_family_is_a_suffix(page: Page) -> None:
    page.open(kind=".PY")
    page.waits(lambda: page.texts("#hits h3") == ["tools.py"], "the suffix does not narrow the list")

    page.open(kind="constructor")  # a name that each object of the page's language has

    page.shows("Nothing matches.")


def test_a_facet_of_many_values_shows_the_first_and_the_others_on_request(page: Page) -> None:
    page.open()
    counted = {"corpora": [], "suffixes": [], "folders": [{"value": f"{n}/", "artifacts": 1} for n in range(12)]}
    script = """
    const [counted, done] = arguments;
    import("/page/facets.js").then(({ showFacets }) => {
      showFacets(counted, { corpora: [], kinds: [], folder: "" });
      done();
    });"""
    page.driver.execute_async_script(script, counted)
    assert page.labels("#folders label:not([hidden])") == [f"{n}/ 1" for n in range(8)]

    page.one("#folders button").click()

    assert len(page.labels("#folders label:not([hidden])")) == 12
    assert page.run("return document.activeElement.value") == "8/"
    assert page.all("#folders button") == []


def test_an_opened_artifact_can_be_copied_opened_and_downloaded(page: Page, tmp_path: Path) -> None:
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
    page.open(q="saffron pour cups", corpus="odd", mode="lexical")
    page.opens_first()
    assert page.one("#artifact-path").text == "odd/tools.py"

    copy_path, copy_link, copy_text = page.all("#artifact-actions button")
    read = "navigator.clipboard.readText().then(arguments[0])"
    address = f"{page.address}/?artifact=tools.py&in=odd"
    for button, text in ((copy_path, "odd/tools.py"), (copy_link, address), (copy_text, CODE)):
        button.click()
        page.shows("Copied")
        page.waits(lambda text=text: page.driver.execute_async_script(read) == text, "not on the clipboard")
    opened, download = page.all("#artifact-actions a")
    fetched = "fetch(arguments[0].href).then((given) => given.text()).then(arguments[1], () => arguments[1](null))"
    assert page.run("return arguments[0].target", opened) == "_blank"
    download.click()
    until((tmp_path / "tools.py").exists, "nothing is downloaded")

    assert (tmp_path / "tools.py").read_text() == CODE
    assert page.driver.execute_async_script(fetched, opened) is None  # the policy lets the page itself fetch nothing
    assert page.violations() != []


def test_the_address_of_a_text_that_is_gone_opens_no_other_of_a_like_name(page: Page) -> None:
    page.open(artifact="deep/0.md", **{"in": "many"})
    page.shows("No text deep/0.md is published.")
    assert page.all("#artifact-actions button") == []


def test_an_answer_cites_claims_and_each_citation_leads_to_its_passage(page: Page) -> None:
    page.open()
    page.one("#q").send_keys("when do refresh tokens expire\n")
    page.shows("Refresh tokens expire after 30 days")
    page.one("#answered .cite").click()

    assert page.focused == "evidence-1"
    assert page.in_view(page.one("#evidence-1"))

    page.one("#evidence-1 a").click()

    assert "Refresh tokens expire after 30 days" in page.passage().text
    assert page.in_view(page.one("#artifact .passage"))


def test_an_answer_says_how_sure_it_is_and_what_a_search_finds_beside_it(page: Page) -> None:
    page.open(q="when do refresh tokens expire", answer="1")

    page.shows("Confidence:", "Not reviewed by a person: ", "Also found")
    beside = page.texts("#beside li a")
    assert 1 <= len(beside) <= 3
    page.one("#beside a").click()
    assert page.passage().text


def test_a_weak_match_is_not_offered_beside_an_answer(page: Page) -> None:
    page.open()
    hits = [{"corpus": "c", "artifact_id": artifact, "text": "x", "weak": artifact == "b"} for artifact in "ab"]
    script = """
    const [hits, done] = arguments;
    import("/page/answer.js").then(({ besides }) => done(besides(hits, { claims: [], quotes: [] })));"""

    assert [hit["artifact_id"] for hit in page.driver.execute_async_script(script, hits)] == ["a"]


def test_an_answer_that_there_is_not_says_what_was_looked_for(page: Page) -> None:
    page.open(q="photosynthesis", answer="1")

    page.shows(
        "No answer: nothing that was found states it (looked for: photosynthesis).",
        "Not covered: photosynthesis",
        "Not read here: 1 .md. The state of the index says why.",
    )


def test_everything_can_be_done_by_keyboard(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.open()
    page.one("#state").send_keys("")
    page.run("document.activeElement.blur()")
    page.type("/")
    assert page.focused == "q"

    page.type("tokens expire\n")
    page.shows("best first")
    links = page.texts("#hits h3 a")
    page.type(Keys.ARROW_DOWN)
    assert page.focused == links[0]
    page.type(Keys.ARROW_DOWN)
    assert page.focused == links[1]

    page.type(Keys.ENTER)
    page.passage()
    assert page.run("return document.activeElement.closest('#artifact') !== null")

    page.type(Keys.ESCAPE)
    page.waits(lambda: not page.all("#artifact[open]"), "Esc does not close")
    assert page.focused == links[1]

    page.type(Keys.ARROW_UP, Keys.ARROW_UP)
    assert page.focused == "q"
    assert page.one("#q").get_attribute("value") == "tokens expire"


def test_filters_keep_the_focus_and_what_is_being_written(page: Page) -> None:
    page.open(q="tokens tea minutes")
    page.open_filters()
    page.one("#add").click()
    page.run("document.querySelector('#corpora input[value=notes]').focus()")

    page.type(" ")

    page.waits(lambda: "corpus=notes" in page.query, "no corpus in the address")
    assert page.run("return document.activeElement.value") == "notes"
    assert len(page.all("#conditions li")) == 1
    page.one("#conditions input").send_keys("x\t")
    page.waits(lambda: "where=" in page.query, "no condition in the address")
    assert page.focused == "Remove"


def test_a_slash_in_the_query_is_a_slash(page: Page) -> None:
    page.open()
    page.one("#q").send_keys("and/or")

    assert page.one("#q").get_attribute("value") == "and/or"


def test_a_screen_reader_finds_landmarks_names_and_news(page: Page) -> None:
    page.open(q="tokens expire", answer="1", where=json.dumps(["path", "starts", "auth"]))
    page.one("#state").click()
    page.opens_first()

    roles = {selector: page.one(selector).aria_role for selector in ("header", "main", "#ask", "#artifact")}
    assert roles == {"header": "banner", "main": "main", "#ask": "search", "#artifact": "dialog"}
    controls = [
        one for one in page.all("button, input, select, a, summary, dialog, [tabindex='0']") if one.is_displayed()
    ]
    assert len(controls) > 20
    assert [one.get_attribute("outerHTML") for one in controls if not one.accessible_name.strip()] == []
    assert page.one("#found").aria_role == "status"
    assert page.one("#problem").get_attribute("role") == "alert"
    assert page.one("#hits [aria-current=true]").accessible_name == page.one("#hits h3 a").text


def test_what_artifacts_hold_never_becomes_part_of_the_page(page: Page) -> None:
    """Hostile titles, texts, fields, file names and queries, wherever the page shows them."""
    page.violations()  # those of tests before
    seen = 0
    for state in ({}, {"answer": "1"}, {"route": "collapsed"}):
        page.open(q='hostile "><img src=x onerror=window.owned=1> tokens', corpus="docs", **state)
        page.one("#state").click()
        page.open_filters()
        page.one("#add").click()
        for details in page.all("#hits summary"):
            page.run("arguments[0].click()", details)
        link = next(link for link in page.all("#hits h3 a") if "gnp.md" in link.get_attribute("href"))
        page.run("arguments[0].click()", link)
        page.passage()

        seen += "onerror" in page.text
        assert page.run("return window.owned") is None
        assert page.all("img, iframe, object, embed, svg, body script, body style, [onmouseover], [onerror]") == []
        assert page.all("a[href^='javascript:' i]") == []
    assert seen == 3
    assert page.violations() == []


def test_a_name_cannot_turn_round_the_line_that_it_stands_in(page: Page) -> None:
    page.open(q="hostile", corpus="docs")

    assert "\u202e" not in page.text
    assert "\ufffdgnp.md" in page.text
    script = "const done = arguments[1]; import('/page/dom.js').then(({ line }) => done(line(arguments[0])))"
    shown = {"a\u200db": "a\ufffdb", "\u061ca": "\ufffda", "می\u200cروم 👩\u200d👧": "می\u200cروم 👩\u200d👧"}
    assert {given: page.driver.execute_async_script(script, given) for given in shown} == shown


def test_the_policy_of_the_page_lets_nothing_run_that_is_not_its_own(page: Page) -> None:
    page.open()

    assert (
        page.run("""
        const script = document.createElement("script");
        try { script.text = "window.owned = 1"; document.body.append(script); } catch {}
        try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.owned = 1'>"); } catch {}
        return window.owned ?? null""")
        is None
    )


def test_no_other_host_is_asked_for_anything(page: Page) -> None:
    page.violations()  # those of tests before
    page.driver.get_log("performance")
    page.open(q="tokens expire", answer="1")
    page.one("#state").click()
    page.opens_first()

    events = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert len(sent) > 5
    assert [url for url in sent if not url.startswith((page.address, "about:"))] == []
    assert page.violations() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_in_light_and_dark(page: Page, scheme: str) -> None:
    page.looks(scheme=scheme)
    page.open(q="tokens expire", answer="1", corpus="docs")
    page.one("#state").click()
    page.shows("failed")
    page.opens_first()

    assert page.run(CONTRAST) == {}
    assert page.run(EDGES) == []
    background = page.run(
        "return getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (sum(background) < 3 * 128) == (scheme == "dark")


def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page) -> None:
    page.looks(PHONE)
    page.open(q="hostile tokens expire", answer="1", where=json.dumps(["path", "<>", "x" * 200]))
    page.one("#state").click()
    page.shows("best first")
    assert not page.run(WIDE)

    page.run("arguments[0].click()", page.one("#hits h3 a"))
    passage = page.passage()

    assert not page.run(WIDE)
    assert page.in_view(passage)
    assert page.one("#artifact").rect["width"] == PHONE[0]
    assert page.run("return document.querySelector('#artifact').matches(':modal')")


def test_the_state_of_the_index_names_what_is_published_and_what_failed(page: Page) -> None:
    page.open(q="tokens")
    assert "failed" not in page.text
    assert not page.one("#index").is_displayed()
    page.one("#state").click()

    page.shows("as version", "Failed in docs", "broken.md: binary")
    assert page.one("#index a").get_attribute("href") == "https://dagster.example/"

    page.open()

    page.waits(lambda: "notes 1" in page.labels("#corpora label"), "no corpora before any query")
    assert not page.one("#index").is_displayed()


def test_the_state_of_the_index_names_what_keeps_readers_from_the_newest_files(driver: Any, cli: Cli) -> None:
    cli.settings["retain"] = 2
    for name in ("old.md", "new.md"):
        cli.write(name, text_about(name))
        assert cli.run("index").exit_code == 0
    assert cli.run("rollback").exit_code == 0
    (cli.folder / "docs").rename(cli.folder / "away")
    assert cli.run("index").exit_code == 1
    with served(cli.config) as address:
        page = Page(driver, address)
        page.open()
        page.one("#state").click()

        page.shows("rolled back to version", "(source): corpora.docs.source.root: no such directory")


@pytest.mark.parametrize("size", [DESK, PHONE, SMALL])
def test_what_was_left_out_of_each_document_is_named(page_of_left_out: Page, size: tuple[int, int]) -> None:
    page = page_of_left_out
    page.looks(size)
    page.open()
    page.one("#state").click()

    page.shows("Failed in docs", "Guessed or left out in docs", "Skipped in docs")
    said = page.labels("#index .listed li")
    told = {name: words for name, (_, words) in {**NOTED, **FAILED, **SKIPPED}.items()}
    for name, words in told.items():
        assert [line for line in said if line.startswith(f"{name}: {words}")]
    assert not page.run(WIDE)

    for name, (_, words) in list(NOTED.items())[: len(NOTED) if size == DESK else 2]:
        page.open(artifact=name, **{"in": "docs"})
        all_words = [*ALSO_NOTED.get(name, []), words]
        page.waits(lambda: page.texts("#artifact .note") == all_words, f"no note {words}")  # noqa: B023
        assert page.in_view(page.one("#artifact .note"))
        assert not page.run(WIDE)


@pytest.mark.parametrize("size", [DESK, SMALL])
def test_a_passage_of_a_scan_is_marked_on_the_picture_of_its_page(scanned: Page, size: tuple[int, int]) -> None:
    scanned.looks(size)
    scanned.open(q="heron waits")
    scanned.one("#hits h3 a").click()
    mark = scanned.one("#artifact .scan .box")

    scanned.waits(lambda: scanned.in_view(mark), "the mark is out of view")
    left, top, width, height = scanned.run(
        """
        const shown = [arguments[0], document.querySelector(".scan img")];
        const [box, page] = shown.map((one) => one.getBoundingClientRect());
        return [box.left - page.left, box.top - page.top, box.width, box.height].map((n) => n / page.width)""",
        mark,
    )
    assert 0.04 < left < 0.08
    assert 0.04 < top < 0.08
    assert 0.3 < width < 0.5
    assert 0.03 < height < 0.08
    assert scanned.run("return document.querySelector('.scan img').naturalWidth") > 500
    assert scanned.texts(".scans figcaption") == ["Page 2"]
    assert not scanned.run(WIDE)
    assert scanned.violations() == []


def test_a_scan_that_changed_has_no_picture_and_the_page_says_why(scanned: Page) -> None:
    scanned.open(q="fog bell")
    scanned.one("#hits h3 a").click()

    scanned.shows("No picture of page 1: the file, or the program that reads it, has changed")
    assert scanned.in_view(scanned.passage())
    assert scanned.all(".scan img") == []


def test_what_is_published_while_the_page_is_open_shows(driver: Any, cli: Cli) -> None:
    cli.write("one.md", "# One\n\nA heron stands here.\n")
    cli.run("index")
    with served(cli.config) as address:
        page = Page(driver, address)
        page.open(q="heron")
        assert page.texts("#corpora:not([hidden]) label") == []
        cli.write("two.md", "# Two\n\nA second heron stands there.\n")
        (cli.folder / "other").mkdir()
        (cli.folder / "other" / "three.md").write_text("# Three\n")
        cli.run("index")

        page.back_in_sight()
        page.shows("A new version of the index was published.")
        assert page.texts("#hits h3") == ["One"]
        page.one("#newer button").click()

        page.waits(lambda: sorted(page.texts("#hits h3")) == ["One", "Two"], "what is new is not found")
        assert "A new version" not in page.text
        page.one("#state").click()
        page.shows("2 texts in 2 passages")


def more(page: Page, wanted: int) -> None:
    """Ask for more results until as many are listed."""
    while (many := len(page.all("#hits > li"))) < wanted:
        page.one("#further").click()
        page.waits(lambda many=many: len(page.all("#hits > li")) > many, "the results do not go on")


def test_what_goes_on_after_a_publish_is_not_joined_to_what_was_before(driver: Any, cli: Cli) -> None:
    for n in range(60):
        cli.write(f"heron-{n:02}.md", f"# Heron {n}\n\nA heron was here for {n} days.\n")
        os.utime(cli.folder / "docs" / f"heron-{n:02}.md", (DAY * (360 - n), DAY * (360 - n)))
    cli.run("index")
    with served(cli.config) as address:
        page = Page(driver, address)
        page.open(q="heron", mode="lexical")
        more(page, 30)
        first = page.texts("#hits h3")
        cli.write("heron.md", "# Heron\n\nHeron, heron, heron.\n")
        cli.run("index")

        page.one("#further").click()
        page.shows("another version of the index is published", "A new version of the index was published.")
        assert page.texts("#hits h3") == first
        page.one("#newer button").click()
        page.waits(lambda: page.texts("#hits h3")[:1] == ["Heron"], "what is new is not found")
        more(page, 61)
        assert len(set(page.texts("#hits h3"))) == 61
        assert not page.one("#further").is_displayed()

        page.open()
        page.shows("61 texts to search, newest first")
        cli.write("stork.md", "# Stork\n\nIt is new.\n")
        cli.run("index")
        page.one("#further").click()
        page.shows("A new version of the index was published.")


def test_a_condition_on_a_long_number_is_not_rounded(page: Page) -> None:
    page.open()
    script = """
    const [conditions, done] = arguments;
    const fields = new Map([["id", "int64"], ["rating", "double"]]);
    import("/page/filters.js").then(({ sql }) => done(sql(conditions, fields)));"""
    conditions = [
        ["id", "=", " 1234567890123456789"],
        ["rating", ">=", "4.50"],
        ["rating", "<=", "5"],
        ["id", "=", "x'"],
    ]

    made = page.driver.execute_async_script(script, conditions)

    assert made == "`id` = 1234567890123456789 AND `rating` >= 4.5 AND `rating` <= 5 AND `id` = 'x'''"


def test_the_start_lists_what_is_in_the_index_newest_first(driver: Any, cli: Cli) -> None:
    for n in range(23):
        cli.write(f"heron-{n}.md", f"# Heron {n}\n\nIt has been here for {n} days.\n")
        os.utime(cli.folder / "docs" / f"heron-{n}.md", (DAY * (360 - n), DAY * (360 - n)))
    cli.write("far/egret.md", "# Egret\n\nAn egret.\n")
    cli.run("index")
    with served(cli.config) as address:
        page = Page(driver, address)
        page.open()
        page.shows("24 texts to search, newest first")
        newest = ["Egret", *(f"Heron {n}" for n in range(23))]
        assert page.texts("#hits h3") == newest[:20]
        assert page.texts("#hits .facts")[1].split()[:2] == ["docs", "heron-0.md"]
        assert "1970" in page.texts("#hits .facts")[1]

        page.one("#further").click()
        page.waits(lambda: page.texts("#hits h3") == newest, "the list does not go on")
        assert page.focused == newest[20]
        page.open(folder="far/")
        page.waits(lambda: page.texts("#hits h3") == ["Egret"], "the list is not narrowed")
        page.one("#hits h3 a").click()
        page.waits(lambda: "An egret." in page.one("#artifact-body").text, "it is not opened")

        page.open()
        cli.write("stork.md", "# Stork\n\nIt is new.\n")
        cli.run("index")
        page.back_in_sight()
        page.one("#newer button").click()
        page.waits(lambda: page.texts("#hits h3")[0] == "Stork", "what is new is not listed")


def test_a_filter_that_is_refused_lists_nothing_and_says_so(page: Page) -> None:
    page.open()
    page.shows("newest first")

    page.open(where=json.dumps(["unheard", "=", "x"]))

    page.waits(lambda: "unheard" in page.one("#problem").text, "it is not said")
    assert page.all("#hits > li") == []


def test_on_a_phone_the_start_shows_texts_before_filters(page: Page) -> None:
    page.looks(PHONE)
    page.open()
    page.shows("newest first")

    assert page.run("return document.querySelector('#hits h3').getBoundingClientRect().top") < 260
    assert page.one("#more").get_attribute("open") is None


def test_an_index_in_which_nothing_is_yet_says_what_to_do(driver: Any, tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.run("status")
    with served(cli.config) as address:
        page = Page(driver, address)

        driver.get(address)
        page.shows("Nothing published yet", "run findingaid index, then search here")
        page.one("#q").send_keys("anything\n")

        page.shows("findingaid index")
        assert page.all("#hits li") == []


def test_a_server_with_a_token_is_asked_with_the_one_that_a_person_gives(
    driver: Any, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_TOKEN", "open sesame")
    with served(indexed, "--token-env", "PAGE_TOKEN") as address:
        page = Page(driver, address)

        driver.get(f"{address}/?q=tea")
        page.waits(page.one("#secret").is_displayed, "no token is asked for")
        page.one("#secret").send_keys("sesame\n")
        page.shows("Wrong token")
        page.one("#secret").send_keys("open sesame\n")

        page.shows("best first", "Tea")
        assert not page.one("#secret").is_displayed()


def test_the_page_shows_what_its_reader_may_read_and_says_who_that_is(driver: Any, tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.write("tea.md", "# Tea\n\nTea is brewed for four minutes.\n")
    cli.write("hr/tea.md", "# Tea money\n\nThe tea is paid by the office.\n")
    cli.settings["corpora"]["docs"]["access"] = [
        {"readers": ["public"]},
        {"match": "hr/", "readers": ["group:hr"]},
    ]
    token = hashlib.sha256(b"open sesame").hexdigest()
    cli.settings["serve"] = {"callers": [{"token_sha256": token, "user": "user:ann"}]}
    assert cli.run("index").exit_code == 0
    with served(cli.config) as address:
        page = Page(driver, address)

        driver.get(f"{address}/?q=tea")
        page.waits(page.one("#secret").is_displayed, "no token is asked for")
        page.one("#secret").send_keys("open sesame\n")

        page.shows("best first", ", for user:ann")
        assert page.texts("#hits h3") == ["Tea"]


def test_a_token_is_asked_for_before_an_opened_artifact(
    driver: Any, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_TOKEN", "open sesame")
    with served(indexed, "--token-env", "PAGE_TOKEN") as address:
        page = Page(driver, address)
        page.looks(PHONE)

        driver.get(f"{address}/?artifact=tea.md&in=notes")
        page.waits(page.one("#secret").is_displayed, "no token is asked for")
        page.one("#secret").send_keys("open sesame\n")

        page.shows("Tea is brewed for four minutes.")


def test_a_server_that_is_gone_is_said_to_be_until_it_is_back(driver: Any, indexed: Path) -> None:
    with served(indexed) as address:
        page = Page(driver, address)
        page.open(q="tea")
    page.one("#q").send_keys(" brewed\n")
    page.waits(lambda: page.texts("#problem, #state") == ["The server does not respond."] * 2, "it is not said")

    with served(indexed, "--port", address.rpartition(":")[2]):
        page.one("#q").send_keys("\n")

        page.shows("best first", "Published")
        assert not page.one("#problem").is_displayed()


def test_a_search_that_is_given_up_leaves_nothing_under_way(page: Page) -> None:
    page.open()
    page.run("document.getElementById('q').value = 'tokens'; document.getElementById('ask').requestSubmit()")
    page.driver.back()

    page.waits(lambda: page.query == "", "the search stays")
    page.waits(lambda: page.run("return document.querySelector('[aria-busy=true]')") is None, "it goes on")
    page.shows("newest first")
    assert page.all("#hits .text") == []


def test_a_model_writes_an_answer_only_where_there_is_one_and_it_is_asked_to(
    driver: Any, cli: Cli, server: OpenAIServer
) -> None:
    cli.write("auth.md", "# Access\n\nAccess tokens expire after 15 minutes.\n\nRefresh tokens are sent by mail.\n")
    cli.settings["corpora"]["docs"]["claims"] = True
    cli.settings["answer"] = openai(server)
    cli.run("index")

    def written(request: Any) -> dict[str, Any]:
        evidence = [int(number) for number in re.findall(r"Evidence (\d+):", request.content)]
        return {"sentences": [{"text": "After 15 minutes access tokens expire.", "evidence": evidence}]}

    server.answer = written
    invented = {"sentences": [{"text": "Access is magic.", "evidence": []}]}
    server.script(faults.server_error(), faults.content(json.dumps(invented)))
    with served(cli.config) as address:
        page = Page(driver, address)
        page.open(q="when do access tokens expire", answer="1")
        page.shows("Access tokens expire after 15 minutes", "Composed from the 1 claim below")
        page.waits(page.one("#write").is_displayed, "no model is offered")
        assert server.completions == []

        assert page.one("#write").text == "Let small write it"
        page.one("#write").click()
        page.shows("500", "Access tokens expire after 15 minutes", "Let small write it")
        page.one("#write").click()
        page.shows(
            "small wrote nothing that the evidence supports", "Access tokens expire after 15 minutes", "Let small"
        )
        page.one("#write").click()

        page.shows("After 15 minutes access tokens expire", "Written by small from the 1 claim below")
        assert not page.one("#write").is_displayed()
        page.one("#said .cite").click()
        assert page.focused == "evidence-1"
    assert len(server.completions) == 3


def test_no_model_is_offered_where_none_is_configured(page: Page) -> None:
    page.open(q="when do refresh tokens expire", answer="1")
    page.shows("Composed from")

    assert not page.one("#write").is_displayed()


AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_keeps_people_out(page: Page, scheme: str) -> None:
    from axe_core_python.selenium import Axe

    def named() -> dict[str, list[str]]:
        problems = Axe().run(page.driver, options=AXE)["violations"]
        return {problem["id"]: [node["html"] for node in problem["nodes"]] for problem in problems}

    page.looks(scheme=scheme)
    page.open()
    assert named() == {}

    page.open(q="tokens expire", answer="1", route="collapsed", where=json.dumps(["path", "<>", "x"]))
    page.shows("Composed from")
    page.one("#state").click()
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    page.shows("synopsis of docs/", "Failed in docs")
    assert named() == {}

    page.opens_first()
    assert named() == {}

    page.looks(PHONE, scheme)
    page.waits(lambda: page.run("return document.querySelector('#artifact').matches(':modal')"), "it is not above")
    assert named() == {}


@contextmanager
def served(config: Path, *options: str) -> Iterator[str]:
    """`findingaid serve http` on a free port; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    if "--port" in options:
        port = options[options.index("--port") + 1]
    command = [sys.executable, "-m", "findingaid", "serve", "http", "--port", port, "--config", str(config), *options]
    server = subprocess.Popen(command, cwd=ROOT)
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: listens(int(port)), "the server does not answer", SOON)
        yield address
    finally:
        server.terminate()
        server.wait(SOON)


def choose(control: Any, label: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(control).select_by_visible_text(label)
