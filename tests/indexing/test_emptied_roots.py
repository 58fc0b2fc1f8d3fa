"""A root that suddenly has nothing of what it had, as of a disk that is not mounted, deletes nothing."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from findingaid import Corpus, FindingAid, Source
from findingaid.sources.files import Files
from findingaid.sources.records import RecordFile
from findingaid.store import Store
from findingaid.strategies import WholeText
from findingaid.testing import HashEmbedder

NAMES = ("a.md", "b.md", "c.md")


def folder(root: Path, names: Sequence[str]) -> Source:
    root.mkdir(exist_ok=True)
    for file in root.iterdir():
        file.unlink()
    for name in names:
        (root / name).write_text(f"The text of {name}.")
    return Files(root)


def beside_a_binary_file(root: Path, names: Sequence[str]) -> Source:
    source = folder(root, names)
    (root / "other.bin").write_bytes(b"\0\1\2\3" * 100)
    return source


def beside_another_file(root: Path, names: Sequence[str]) -> Source:
    return folder(root, names or ["lost and found.md"])


def archive(root: Path, names: Sequence[str]) -> Source:
    with zipfile.ZipFile(f"{root}.zip", "w") as made:
        for name in ("readme.txt", *names):
            made.writestr(name, f"The text of {name}.")
    return Files(f"{root}.zip", include=("*.md",))


def bucket(root: Path, names: Sequence[str]) -> Source:
    storage = fsspec.filesystem("memory")
    storage.pipe({f"/{root.name}/{name}": f"The text of {name}.".encode() for name in ("readme.txt", *NAMES)})
    for name in {*NAMES} - {*names}:
        storage.rm(f"/{root.name}/{name}")
    return Files(f"memory://{root.name}", include=("*.md",))


def jsonl(root: Path, names: Sequence[str]) -> Source:
    path = Path(f"{root}.jsonl")
    path.write_text("".join(f'{{"id": "{name}", "text": "The text of {name}."}}\n' for name in names))
    os.utime(path, (0, 0))
    return RecordFile(path, text="text")


@pytest.mark.parametrize(
    "make",
    [folder, beside_a_binary_file, beside_another_file, archive, bucket, jsonl],
)
def test_a_root_without_anything_that_it_had_deletes_nothing_unless_loss_is_allowed(
    tmp_path: Path, make: Callable[[Path, Sequence[str]], Source]
) -> None:
    root = tmp_path / f"root-{make.__name__.replace('_', '-')}"
    corpus = Corpus("docs", make(root, NAMES), WholeText(), max_loss=0.99)
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": corpus})
    aid.index()
    make(root, ())

    for force in (False, True):
        assert "run again with --allow-loss" in (aid.index(force=force).corpora["docs"].error or "")
        assert {artifact_id for (_, artifact_id), _ in aid.artifacts()} >= {*NAMES}
        assert [failure.kind for failure in aid.status()[0].failed] == ["SourceShrunkError"]

    assert aid.index(allow_loss=True).corpora["docs"].deleted == 3
    assert not [failure for failure in aid.status()[0].failed if failure.kind == "SourceShrunkError"]
    assert not {artifact_id for (_, artifact_id), _ in aid.artifacts()} & {*NAMES}


def test_a_corpus_that_may_lose_everything_is_refused_only_if_nothing_is_listed(tmp_path: Path) -> None:
    corpus = Corpus("docs", folder(tmp_path / "root", NAMES), WholeText(), max_loss=1)
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": corpus})
    aid.index()

    folder(tmp_path / "root", ())
    assert "run again with --allow-loss" in (aid.index().corpora["docs"].error or "")
    folder(tmp_path / "root", ("other.md",))
    assert aid.index().corpora["docs"].deleted == 3


def test_files_that_never_could_be_read_are_no_loss(tmp_path: Path) -> None:
    source = folder(tmp_path / "root", ("a.md",))
    for name in ("b.pdf", "c.pdf", "d.pdf"):
        (tmp_path / "root" / name).write_bytes(b"%PDF-1.4 cut short")
    aid = FindingAid(
        Store(str(tmp_path / "index")),
        HashEmbedder(),
        {"docs": Corpus("docs", source, WholeText(), max_failures=1)},
    )
    assert len(aid.index().corpora["docs"].failed) == 3
    left_out = Files(tmp_path / "root", exclude=aid.index(force=True).corpora["docs"].exclude)

    aid = replace(aid, corpora={"docs": replace(aid.corpora["docs"], source=left_out)})

    assert aid.index().ok
    assert aid.status()[0].failed == []


def test_a_folder_whose_files_are_all_renamed_is_indexed_under_the_new_names(tmp_path: Path) -> None:
    aid = FindingAid(
        Store(str(tmp_path / "index")),
        HashEmbedder(),
        {"docs": Corpus("docs", folder(tmp_path / "root", NAMES), WholeText())},
    )
    aid.index()
    folder(tmp_path / "root", [f"new-{name}" for name in NAMES])

    assert aid.index().corpora["docs"].deleted == 3
    assert {artifact_id for (_, artifact_id), _ in aid.artifacts()} == {f"new-{name}" for name in NAMES}
