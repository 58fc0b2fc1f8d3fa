"""A process knows the files that it was started with, and that they have changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from findingaid.identity import inputs
from findingaid.identity.inputs import changed_input, read_input
from findingaid.synthesis.openai_chat import OpenAISynthesizer


@pytest.fixture(autouse=True)
def _nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_READ", {})


@pytest.mark.parametrize("change", [lambda path: path.write_text("other"), Path.unlink], ids=["edited", "deleted"])
def test_an_input_that_changed_is_named_until_it_is_as_it_was(tmp_path: Path, change: object) -> None:
    path = tmp_path / "prompt.md"
    path.write_text("Say it in one sentence.")
    OpenAISynthesizer(model="small", base_url="http://localhost:9", prompt=path)
    assert changed_input() is None

    change(path)  # type: ignore[operator]

    assert changed_input() == path
    path.write_text("Say it in one sentence.")
    assert changed_input() is None


def test_a_module_that_is_loaded_counts_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "loaded_by_this_test.py"
    path.write_text("A = 1")
    __import__(path.stem)
    assert changed_input() is None

    path.write_text("A = 2")

    assert changed_input() == path


def test_a_pipe_can_be_read_once_and_has_not_changed() -> None:
    end, start = os.pipe()
    os.write(start, b"store: index\r\n")
    os.close(start)

    assert read_input(Path(f"/dev/fd/{end}")) == "store: index\n"

    os.close(end)
    assert changed_input() is None
