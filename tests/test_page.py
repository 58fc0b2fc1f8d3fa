"""The search page in a real browser: what a person sees, types and hears of it, over a real server and index."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from findingaid.testing import OpenAIServer, faults
from tests.conftest import Cli, openai, text_about
from tests.deployment import ROOT, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("CI") and not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="needs Debian's chromium and chromium-driver",
    ),
]

DESK, PHONE = (1400, 900), (390, 780)
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

CODE = """def brew(minutes):
    return minutes


def pour(cups):
    return cups  # saffron
"""
ONE_LINE = " ".join(f"crate{n % 977}" for n in range(60_000)) + " The green heron fishes. " + "crate " * 60_000
ARABIC = "# تقرير\n\nتنتهي صلاحية الرموز بعد ساعة (auth).\n"
SESSIONS = ROOT / "examples" / "collections" / "sessions"

CONTRAST = """
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
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = {};
while (texts.nextNode()) {
  const node = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !node.checkVisibility() || node.closest("option")) continue;
  const [one, other] = [light(rgb(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
  const ratio = (one + 0.05) / (other + 0.05);
  if (ratio < 4.5) found[texts.currentNode.data.trim().slice(0, 40)] = ratio;
}
return found;
"""
"""Texts that stand out from what is behind them by less than WCAG asks for (AA)."""


class Page:
    """The page in a browser, as a person has it before them."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def waits(self, look: Callable[[], Any], problem: str) -> None:
        until(look, lambda: f"{problem}: {self.text[:3000]}", SOON)

    def open(self, **state: Any) -> None:
        """The page with what stands in its address, once it shows all of it."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}/?{urlencode(state, doseq=True)}")
        if "q" in state:
            self.shows("best first")
        self.waits(lambda: "Published" in self.texts("#state")[0], "the state of the index is not known")

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
        """The id of what has the focus, its text where it has none."""
        return str(self.run("const at = document.activeElement; return at.id || at.innerText"))

    def shows(self, *texts: str) -> None:
        self.waits(lambda: all(text in self.text for text in texts), f"{texts} are not in")

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return list(
            self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", selector)
        )

    def type(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def passage(self) -> Any:
        """The marked passage of the opened artifact, once it is there."""
        until(lambda: bool(self.all("#artifact .passage")), "no passage is marked")
        return self.one("#artifact .passage")

    def in_view(self, found: Any) -> bool:
        script = "const at = arguments[0].getBoundingClientRect(); return at.top >= 0 && at.top < innerHeight"
        return bool(self.run(script, found))

    def violations(self) -> list[str]:
        """What the page's policy stopped since this was last asked."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        return [message for message in said if "Security Policy" in message]

    def looks(self, size: tuple[int, int] = DESK, scheme: str = "light") -> None:
        """As on a screen of this size, of somebody who likes it light or dark."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"):
        options.add_argument(f"--{argument}")
    for argument in ("disable-background-networking", "disable-component-update"):
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
    (notes / "tools.py").write_text(CODE)
    (notes / "haul.md").write_text(ONE_LINE)
    (notes / "arabic.md").write_text(ARABIC)
    files = {"kind": "files", "include": ["**/*.md"]}
    cli.settings["corpora"] = {
        "docs": {
            "source": {**files, "root": "docs"},
            "strategy": {"name": "Chunked", "chunk_size": 300, "overlap": 40},
            "synopsis": True,
            "claims": True,
        },
        "notes": {"source": {**files, "root": "notes", "include": ["*"]}},
        "sessions": {"source": {"kind": "sessions", "root": str(SESSIONS)}, "strategy": {"name": "ClaudeSession"}},
    }
    cli.settings["serve"] = {"dagster_url": "https://dagster.example/"}
    cli.run("index")
    return cli.config


@pytest.fixture(scope="module")
def page(driver: Any, indexed: Path) -> Iterator[Page]:
    with served(indexed) as address:
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


def test_an_address_has_all_of_a_search_and_of_what_is_opened(page: Page) -> None:
    page.open(q="tokens", mode="lexical", corpus="docs", route="boost")
    page.one("#hits h3 a").click()
    page.passage()
    address, results = page.driver.current_url, page.texts("#hits h3")
    page.driver.get("about:blank")

    page.driver.get(address)
    page.passage()

    assert page.texts("#hits h3") == results
    assert page.one("input[name=mode]:checked").get_attribute("value") == "lexical"
    assert page.one("#corpora input:checked").get_attribute("value") == "docs"
    assert page.one("#route").get_attribute("value") == "boost"


def test_back_closes_what_was_opened_and_then_undoes_the_search(page: Page) -> None:
    page.open(q="tea")
    page.one("#q").send_keys(" brewed\n")
    page.waits(lambda: "tea+brewed" in page.query, "no search")
    page.shows("best first")
    page.one("#hits h3 a").click()
    page.passage()

    page.driver.back()
    page.waits(lambda: not page.all("#artifact[open]"), "the artifact stays open")
    page.driver.back()

    page.waits(lambda: page.one("#q").get_attribute("value") == "tea", "the query before is not there")


def test_corpora_and_fields_narrow_a_search(page: Page) -> None:
    page.open(q="tokens tea minutes")
    page.one("#corpora input[value=notes] + span").click()
    page.waits(lambda: "corpus=notes" in page.query, "no corpus in the address")
    page.waits(lambda: page.texts("#hits h3") == ["Tea"], "not the one of notes")

    page.one("#corpora input[value=notes] + span").click()
    page.one("#more summary").click()
    page.one("#add").click()
    field, how = page.all("#conditions li select")
    choose(field, "path")
    field, how = page.all("#conditions li select")
    choose(how, "starts with")
    page.one("#conditions input").send_keys("auth\t")

    page.waits(lambda: "where=" in page.query, "no condition in the address")
    page.shows("More filters (1)", "best first")
    assert all("auth.md" in facts for facts in page.texts("#hits .facts"))


def test_a_filter_that_finds_nothing_or_is_wrong_says_so(page: Page) -> None:
    page.open()
    condition = json.dumps(["path", "=", "it's not there"])
    page.driver.get(f"{page.address}/?{urlencode({'q': 'tokens', 'where': condition})}")
    page.shows("Nothing matches")

    page.driver.get(f"{page.address}/?{urlencode({'q': 'tokens', 'where': json.dumps(['nowhere', '=', '1'])})}")
    page.shows("no field 'nowhere'")


def test_each_result_says_why_it_is_there(page: Page) -> None:
    page.open(q="tokens expire", corpus="docs", route="collapsed")
    first = page.one("#hits li details")
    first.find_element("css selector", "summary").click()

    page.waits(lambda: "synopsis of docs/" in first.text, "no synopsis")
    assert "by words #1" in first.text
    assert "It was led to, one step by collapsed" in first.text


def test_an_opened_artifact_shows_all_of_its_text_with_the_passage_in_view(page: Page) -> None:
    page.open(q="day 41", mode="lexical", corpus="docs")
    page.one("#hits h3 a").click()
    passage = page.passage()

    assert "day 41" in passage.text
    assert page.in_view(passage)
    pre = passage.find_element("xpath", "./ancestor::pre")
    assert pre.get_attribute("textContent") == PARCELS


def test_more_results_follow_the_first(page: Page) -> None:
    page.open(q="parcel of tokens", mode="lexical")
    assert len(page.all("#hits > li")) == 10

    page.one("#further").click()
    page.waits(lambda: len(page.all("#hits > li")) == 20, "no more results")

    links = [link.get_attribute("href") for link in page.all("#hits h3 a")]
    assert len(set(links)) == 20
    assert page.run("return document.activeElement.href") == links[10]


def test_an_answer_cites_claims_and_each_citation_leads_to_its_passage(page: Page) -> None:
    page.open()
    page.one("#q").send_keys("when do refresh tokens expire")
    page.waits(page.one("#wants-answer").is_displayed, "no answer can be asked for")
    page.one("#wants-answer").click()
    page.shows("Refresh tokens expire after 30 days")
    page.one("#answered .cite").click()

    assert page.focused == "evidence-1"
    assert page.in_view(page.one("#evidence-1"))

    page.one("#evidence-1 a").click()

    assert "Refresh tokens expire after 30 days" in page.passage().text
    assert page.in_view(page.one("#artifact .passage"))


def test_an_answer_that_there_is_not_says_what_was_looked_for(page: Page) -> None:
    page.open(q="photosynthesis", answer="1")

    page.shows("No claim of the index speaks of this", "No claim speaks of: photosynthesis")


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


def test_a_slash_in_the_query_is_a_slash(page: Page) -> None:
    page.open()
    page.one("#q").send_keys("and/or")

    assert page.one("#q").get_attribute("value") == "and/or"


def test_a_screen_reader_finds_landmarks_names_and_news(page: Page) -> None:
    page.open(q="tokens expire", answer="1", where=json.dumps(["path", "starts", "auth"]))
    page.one("#state").click()
    page.one("#hits h3 a").click()
    page.passage()

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
        page.run("document.getElementById('more').open = true")
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
    page.one("#hits h3 a").click()
    page.passage()

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
    page.one("#hits h3 a").click()
    page.passage()

    assert page.run(CONTRAST) == {}
    background = page.run(
        "return getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (sum(background) < 3 * 128) == (scheme == "dark")


def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page) -> None:
    page.looks(PHONE)
    wide = "return document.documentElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth"
    page.open(q="hostile tokens expire", answer="1", where=json.dumps(["path", "<>", "x" * 200]))
    page.one("#state").click()
    page.shows("best first")
    assert not page.run(wide)

    page.run("arguments[0].click()", page.one("#hits h3 a"))
    passage = page.passage()

    assert not page.run(wide)
    assert page.in_view(passage)
    assert page.one("#artifact").rect["width"] == PHONE[0]
    assert page.run("return document.querySelector('#artifact').matches(':modal')")


def test_the_state_of_the_index_names_what_is_published_and_what_failed(page: Page) -> None:
    page.open()
    page.shows("1 failed")
    page.one("#state").click()

    page.shows("as version", "Failed in docs", "broken.md: binary")
    assert page.one("#index a").get_attribute("href") == "https://dagster.example/"


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
        page.shows("Not the right token")
        page.one("#secret").send_keys("open sesame\n")

        page.shows("best first", "Tea")
        assert not page.one("#secret").is_displayed()


def test_a_server_that_is_gone_is_said_to_be(driver: Any, indexed: Path) -> None:
    with served(indexed) as address:
        page = Page(driver, address)
        page.open(q="tea")
    page.one("#q").send_keys(" brewed\n")

    page.shows("The server does not answer")


@contextmanager
def served(config: Path, *options: str) -> Iterator[str]:
    """`findingaid serve http` on a free port; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "findingaid", "serve", "http", "--port", port, "--config", str(config), *options]
    server = subprocess.Popen(command, cwd=ROOT)
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: listens(int(port)), "the server does not answer", SOON)
        yield address
    finally:
        server.terminate()
        server.wait(SOON)


def listens(port: int) -> bool:
    with socket.socket() as there:
        return there.connect_ex(("127.0.0.1", port)) == 0


def choose(control: Any, label: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(control).select_by_visible_text(label)
