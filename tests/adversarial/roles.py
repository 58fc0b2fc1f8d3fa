"""Roles of the processes in `test_at_once.py`; a separate module, because each process imports it."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import findingaid
from findingaid.claims.review import ProposedClaim

DOCUMENTS = 6

PATIENCE_SECONDS = 120
"""How much longer a role goes on that has not done its part once, as on a busy machine."""


@dataclass
class Told:
    """A role's last words: how often it did its part, and everything that should not have been."""

    done: int
    wrong: list[str]


def document(i: int, edition: int) -> str:
    return (
        f"# Document {i}\n\nThe token of edition {edition} expires after {edition} hours. "
        f"It must be renewed by hand.\n\nSee [the next](d{(i + 1) % DOCUMENTS}.md).\n"
    )


def edit(config: Path, i: int, edition: int) -> None:
    """Put another edition in the place of a document, which no reader of it ever sees half."""
    path = config.parent / "docs" / f"d{i}.md"
    path.with_suffix(".new").write_text(document(i, edition))
    path.with_suffix(".new").replace(path)


def repeat(config: str, seconds: str, once: Callable[[findingaid.FindingAid, int], list[str] | None]) -> None:
    """Do something again and again, with a new handle each time, and print the outcomes.

    The time begins when the processes of all roles are ready.
    """
    findingaid.open(config).store.dataset("records")  # completes all lazy imports
    ready = Path(config).parent / "ready"
    (ready / str(os.getpid())).touch()
    while len(list(ready.iterdir())) <= int((ready / "of").read_text()):
        time.sleep(0.02)
    told = Told(0, [])
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until or (not told.done and time.monotonic() < until + PATIENCE_SECONDS):
        try:
            told.wrong += once(findingaid.open(config), told.done) or []
        except findingaid.StoreError as error:
            if "not purged: process" not in str(error):  # a run is at work
                told.wrong.append(f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001  # the test is about errors of any kind
            told.wrong.append(f"{type(error).__name__}: {error}")
        else:
            told.done += 1
    print(json.dumps([told.done, told.wrong[:5]]))


def index(config: str, seconds: str, seed: str) -> None:
    rng = random.Random(seed)

    def once(aid: findingaid.FindingAid, done: int) -> list[str]:
        edit(Path(config), rng.randrange(DOCUMENTS), done)
        report = aid.index()
        return [*report.problems(), *report.repaired]

    repeat(config, seconds, once)


def purge(config: str, seconds: str, seed: str) -> None:
    rng = random.Random(seed)

    def once(aid: findingaid.FindingAid, _: int) -> None:
        aid.purge()
        time.sleep(rng.random() / 2)

    repeat(config, seconds, once)


def approve(config: str, seconds: str, seed: str) -> None:
    def once(aid: findingaid.FindingAid, done: int) -> None:
        said = ProposedClaim("docs", "d0.md", f"Statement {done} of {seed}.")
        [claim] = aid.claims.propose(said, actor=seed)
        aid.claims.reject(claim.claim_id, actor=seed, reason="tried")

    repeat(config, seconds, once)


def read(config: str, seconds: str, seed: str) -> None:
    aid = findingaid.open(config)

    def once(fresh: findingaid.FindingAid, done: int) -> list[str]:
        hits = (aid if done % 2 else fresh).search("token expires", 50)
        shown = fresh.show(f"d{done % DOCUMENTS}.md")
        seen = {hit.artifact_id for hit in hits}
        return [] if len(seen) == DOCUMENTS and shown.records else [f"found only {sorted(seen)}"]

    repeat(config, seconds, once)


ROLES = {"index": index, "purge": purge, "approve": approve, "read": read}
