"""Code location whose workers kill themselves with SIGKILL when they embed a text with the word in the file `deadly`.

They die each time while the file `again` exists, and otherwise once. Every worker records the texts that it embeds.
Each batch has few artifacts and is its own step.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from findingaid.embedding.hashing import HashEmbedder
from findingaid.identity.hashes import text_hash
from findingaid.indexing import plan
from findingaid.model import Vectors
from findingaid_dagster.pipelines.code_location import build_definitions

CONFIG = Path(os.environ["FINDINGAID_CONFIG"])
FOLDER = CONFIG.parent
embed = HashEmbedder.embed

MEET_SECONDS = 60
"""How long the first worker waits for a second one: batches that are small end before another process has started."""


def paying(self: HashEmbedder, texts: Sequence[str]) -> Vectors:
    vectors = embed(self, texts)
    with (FOLDER / f"{os.getpid()}.paid").open("a") as paid:
        paid.writelines(f"{text_hash(text)}\n" for text in texts)
    until = time.monotonic() + MEET_SECONDS
    while len(list(FOLDER.glob("*.paid"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    deadly = FOLDER / "deadly"
    if deadly.exists() and any(deadly.read_text() in text for text in texts):
        if not (FOLDER / "again").exists():
            deadly.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return vectors


def asking(self: HashEmbedder, text: str) -> Vectors:
    """Embed a query without recording it: queries, such as those of checks, are not counted as paid twice."""
    return embed(self, [text])[0]


HashEmbedder.embed_query = asking  # type: ignore[method-assign]  # the worker is the test's own
HashEmbedder.embed = paying  # type: ignore[method-assign]  # the worker is the test's own
plan.BATCH_ARTIFACTS = int(os.environ["BATCH_ARTIFACTS"])
defs = build_definitions(CONFIG)
