"""Dagster UI in a real browser: the assets, their partitions, and a run started there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Cli, text_about
from tests.support.deployment import ROOT, dagster_dev, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("CI") and not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="needs Debian's chromium and chromium-driver",
    ),
]


@pytest.fixture
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"):
        options.add_argument(f"--{argument}")
    for argument in ("disable-background-networking", "disable-component-update", "window-size=1500,1000"):
        options.add_argument(f"--{argument}")
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def ui(cli: Cli) -> Iterator[str]:
    """`dagster dev` over an index that the job has made; gives its address."""
    home = cli.folder / "dagster_home"
    home.mkdir()
    (home / "dagster.yaml").write_text((ROOT / ".dagster" / "dagster.yaml").read_text())
    for topic in ("ledger", "vector"):
        cli.write(f"{topic}.md", text_about(topic))
    cli.run("status")
    environment = {**os.environ, "DAGSTER_HOME": str(home), "FINDINGAID_CONFIG": str(cli.config)}
    dagster = [sys.executable, "-W", "ignore", "-m", "dagster"]
    job = [*dagster, "job", "execute", "-f", "pipelines/definitions.py", "-j", "index"]
    subprocess.run(job, cwd=ROOT, env=environment, check=True, capture_output=True)
    yield from (dagster.address for dagster in dagster_dev(home, cli.config))


def shows(browser: Any, address: str, *texts: str) -> None:
    """Open a page and wait until it shows all of these texts."""
    browser.get(address)

    def there() -> bool:
        page = browser.execute_script("return document.body.innerText")
        return all(text in page for text in texts)

    until(there, f"{address} does not show {texts}: {browser.execute_script('return document.body.innerText')[:2000]}")


def test_people_see_assets_partitions_and_the_finished_run(browser: Any, ui: str) -> None:
    shows(
        browser,
        f"{ui}/assets/docs/records?view=partitions",
        "ledger.md",
        "vector.md",
        "Materialized (2)",
        "Missing (0)",
    )
    shows(browser, f"{ui}/assets/docs/surfaces?view=overview", "Chunked-", "lancedb", "docs")
    shows(browser, f"{ui}/runs", "index", "Success")
    shows(browser, f"{ui}/locations/findingaid/jobs/index", "discover", "finish")
