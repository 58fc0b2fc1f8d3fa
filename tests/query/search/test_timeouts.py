"""Time limit of a search."""

from __future__ import annotations

import subprocess
import sys

GIVES_UP = """
import time
from findingaid import QueryError
from findingaid.query.search.timeouts import run_with_timeout

def read():
    time.sleep(0.5)
    print("read")

try:
    run_with_timeout(0.01, read)
except QueryError as error:
    print(error, flush=True)
"""


def test_a_process_ends_after_the_searches_that_it_gave_up() -> None:
    """Otherwise the interpreter ends while a thread is inside Lance, and aborts."""
    run = subprocess.run([sys.executable, "-c", GIVES_UP], capture_output=True, text=True, check=True)

    assert run.stdout.splitlines() == [
        "no answer within 0.01 s: allow more time, or narrow the search by corpus or filter",
        "read",
    ]
