"""A process knows the files that it was started with, and that they have changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from findingaid.identity import inputs
from findingaid.identity.inputs import changed_input, read_input
from findingaid.synthesis.openai_chat import OpenAISynthesizer


@pytest.fixture(autouse=True)
def _nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_READ", {})


@pytest.mark.parametrize(
    "change", [lambda path: path.write_text("Other words."), Path.unlink], ids=["edited", "deleted"]
)
def test_an_input_that_changed_is_named(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = tmp_path / "prompt.md"
    path.write_text("Say it in one sentence.")
    OpenAISynthesizer(model="small", base_url="http://localhost:9", prompt=path)
    assert changed_input() is None

    change(path)

    assert changed_input() == str(path)


@pytest.mark.parametrize("folder", ["own", "site-packages"])
def test_a_module_that_is_loaded_counts_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Also one of an installed library, which may be upgraded meanwhile."""
    (tmp_path / folder).mkdir()
    monkeypatch.syspath_prepend(tmp_path / folder)
    path = tmp_path / folder / f"loaded_from_{folder.replace('-', '_')}.py"
    path.write_text("A = 1")
    __import__(path.stem)
    assert changed_input() is None

    path.write_text("A = 1 + 1")

    assert changed_input() == str(path)


def test_a_pipe_can_be_read_once_and_has_not_changed() -> None:
    end, start = os.pipe()
    os.write(start, b"store: index\r\n")
    os.close(start)

    assert read_input(Path(f"/dev/fd/{end}")) == "store: index\n"

    os.close(end)
    assert changed_input() is None
