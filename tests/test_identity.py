"""Ids follow content and code: equal in every process, different when a result could be."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from findingaid.identity import content_hash, producer_id, record_id

MODULE = """
from dataclasses import dataclass
from findingaid import Surface, SurfacePlan

SIZE = {size}

def helper(text):  # {comment}
    return [text[i:i + SIZE] for i in range(0, len(text), SIZE)]

@dataclass(frozen=True)
class Own:
    inner: object = None
    def decompose(self, artifact_id, raw, metadata):
        return SurfacePlan({{}}, [Surface("part", part) for part in helper(raw)])
"""


@dataclass(frozen=True)
class Nested:
    inner: Any = None


def id_in_another_process(folder: Path, size: int = 10, comment: str = "cuts", make: str = "Own()") -> str:
    (folder / "own_strategy.py").write_text(MODULE.format(size=size, comment=comment))
    code = f"from own_strategy import *; from findingaid.identity import producer_id; print(producer_id({make}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_custom_strategy_has_the_same_id_in_two_processes(tmp_path: Path) -> None:
    assert id_in_another_process(tmp_path) == id_in_another_process(tmp_path)


def test_an_edited_helper_counts_and_a_comment_does_not(tmp_path: Path) -> None:
    first = id_in_another_process(tmp_path)

    assert id_in_another_process(tmp_path, comment="another word") == first
    assert id_in_another_process(tmp_path, size=11) != first


@pytest.mark.parametrize(
    "other", [Nested(2), Nested([1]), Nested({"a": 1}), Nested(Nested(1)), Nested("1"), Nested(None), Nested({1})]
)
def test_every_parameter_counts(other: Nested) -> None:
    assert producer_id(other) != producer_id(Nested(1))


def test_the_order_of_a_mapping_or_a_set_does_not_count() -> None:
    assert producer_id(Nested({"a": 1, "b": 2})) == producer_id(Nested({"b": 2, "a": 1}))
    assert producer_id(Nested({"a", "b"})) == producer_id(Nested({"b", "a"}))


def test_what_has_no_identity_warns() -> None:
    with pytest.warns(UserWarning, match="no identity of its own"):
        producer_id(Nested(lambda text: text))


def test_parts_do_not_run_together() -> None:
    assert content_hash("ab", "c") != content_hash("a", "bc")
    assert record_id("docs", "a", "chunk", 1) != record_id("docs", "a", "chunk", 11)
    assert record_id("docs", "a", "chunk", 1) == record_id("docs", "a", "chunk", 1)
