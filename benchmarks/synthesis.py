"""A thousand synopses over the network: what findingaid adds to the time the endpoint takes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.figures import Row, timed
from findingaid.model import Outcome, Shown
from findingaid.synthesis.openai_chat import OpenAISynthesizer

SYNOPSES, AT_ONCE, DELAY = 1_000, 32, 0.2
ROUNDS = 3

SERVER = f"""
import sys
from findingaid.testing import OpenAIServer
with OpenAIServer(delay={DELAY}) as server:
    print(server.base_url, flush=True)
    sys.stdin.read()
"""


def synopses(_: Path) -> Iterator[Row]:
    """Against a server in a process of its own, as a real one is."""
    shown = [Shown(str(i), f"Text number {i} says what is kept in the ledger. " * 40) for i in range(SYNOPSES)]
    ideal = SYNOPSES / AT_ONCE * DELAY
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        synthesizer = OpenAISynthesizer("m", server.stdout.readline().strip(), concurrency=AT_ONCE, api_key="none")
        synthesizer.synthesize("Load the client.", {})
        took, work = [], []
        for _round in range(ROUNDS):
            before = time.process_time()
            seconds, made = timed(lambda: dict(synthesizer.synthesize_all(shown)))
            assert all(synopsis.outcome is Outcome.OK for synopsis in made.values())
            took.append(seconds)
            work.append((time.process_time() - before) / SYNOPSES)
        server.communicate("")
    ratio = median(took) / ideal
    yield Row(
        f"{SYNOPSES:,} synopses, {AT_ONCE} at once, {DELAY * 1000:.0f} ms each",
        f"{median(took):.2f} s, {ratio:.2f} × ideal; {min(work) * 1000:.1f} ms of this machine's time each",
        "≤ 1.3 ×",
        ratio <= 1.3,
    )
