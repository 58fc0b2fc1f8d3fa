"""The Dagster UI in a real browser: the assets, their partitions, and a run that a person starts there."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, text_about

ROOT = Path(__file__).parent.parent
PATIENCE = 60

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
    (home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    for topic in ("ledger", "vector"):
        cli.write(f"{topic}.md", text_about(topic))
    cli.run("status")
    environment = {**os.environ, "DAGSTER_HOME": str(home), "FINDINGAID_CONFIG": str(cli.config)}
    dagster = [sys.executable, "-W", "ignore", "-m", "dagster"]
    job = [*dagster, "job", "execute", "-f", "pipelines/definitions.py", "-j", "index"]
    subprocess.run(job, cwd=ROOT, env=environment, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    log = (cli.folder / "dev.log").open("w")
    command = [*dagster, "dev", "-w", str(ROOT / "workspace.yaml"), "-p", port]
    dev = subprocess.Popen(command, cwd="/", env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    until(lambda: reachable(address), "dagster dev does not answer")
    yield address
    kill_all_of(home)
    dev.wait(PATIENCE)


def kill_all_of(home: Path) -> None:
    """Kill every process of an instance: `dagster dev` leaves its children behind when it is killed itself."""
    wanted = f"DAGSTER_HOME={home}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)


def reachable(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/server_info", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def until(condition: Callable[[], bool], message: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.3)


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
