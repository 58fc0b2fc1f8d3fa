"""Parts for tests of Ray workers: an embedder that kills its process, or waits, and runs that cannot be opened."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from findingaid.indexing.run import Run
from findingaid.model import Vectors
from findingaid.testing import HashEmbedder


@dataclass(frozen=True)
class Scripted(HashEmbedder):
    """Hash embedder controlled by files in `folder`.

    With `deadly` it kills its process at a text that contains "poison"; with `once` it does so a single time. While
    `hold` exists it waits, after it has written the id of its Ray node to `held`.
    """

    folder: str = ""

    @property
    def id(self) -> str:
        return super().id

    def embed(self, texts: Sequence[str]) -> Vectors:
        folder = Path(self.folder)
        if (folder / "deadly").exists() and any("poison" in text for text in texts):
            if (folder / "once").exists():
                (folder / "deadly").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if (folder / "hold").exists():
            import ray

            (folder / "held").write_text(ray.get_runtime_context().get_node_id())
        while (folder / "hold").exists():
            time.sleep(0.05)
        return super().embed(texts)


def die(run: str) -> Run:
    """Kill the process, in place of opening a run."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(run)


def lack_a_module(run: str) -> Run:
    """Fail as on a node that lacks a package."""
    raise ModuleNotFoundError(f"No module named 'lacking' in {run}")
