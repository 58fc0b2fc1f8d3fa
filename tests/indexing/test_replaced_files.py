"""A file that is replaced by another while its folder is listed stays in the index."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from findingaid import Corpus, FindingAid
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies import WholeText
from findingaid.testing import HashEmbedder

MEMORY = Path("/dev/shm")  # a tmpfs, which leaves out such a file
COUNT = 1_500
"""Files of more entries than the system returns at a time."""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


def test_a_file_that_is_replaced_while_its_folder_is_listed_is_not_taken_for_deleted(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(COUNT):
        (root / f"{n}.md").write_text(f"The text of {n}.")
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", Files(root), WholeText())})
    aid.index()
    scandir, saved = os.scandir, list[str]()

    @contextmanager
    def beside_an_editor(folder: Any) -> Iterator[Iterator[os.DirEntry[str]]]:
        """List a folder and, once half of it is listed, save the files of the other half as editors do."""

        def entries() -> Iterator[os.DirEntry[str]]:
            with scandir(folder) as found:
                yield from islice(found, COUNT // 2)
                if Path(folder) == root and not saved:
                    for entry in list(scandir(root))[COUNT // 2 :]:
                        saved.append(entry.name)
                        (root / ".saved").write_text(f"The new text of {entry.name}.")
                        os.replace(root / ".saved", entry.path)
                yield from found

        yield entries()

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", beside_an_editor)
        plan = aid.plan().corpora["docs"]

    assert saved
    assert (plan.artifacts, plan.deleted) == (COUNT, 0)


def test_a_file_that_is_deleted_leaves_the_index_with_the_next_run(tmp_path: Path, root: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (root / name).write_text(f"The text of {name}.")
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", Files(root), WholeText())})
    aid.index()
    (root / "b.md").unlink()

    done = aid.index().corpora["docs"]

    assert (done.artifacts, done.deleted) == (2, 1)
