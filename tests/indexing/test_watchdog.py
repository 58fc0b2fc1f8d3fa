"""A run that one artifact holds up says by which, and how to leave it out."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import yaml

from findingaid.indexing import watchdog
from findingaid.sources.patterns import pattern_of
from findingaid.strategies.chunked import Chunked
from tests.conftest import Cli


def test_an_artifact_that_holds_up_a_run_is_named_while_it_does_with_the_line_that_leaves_it_out(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchdog, "HELD_UP_SECONDS", 0.2)
    decompose = Chunked.decompose

    def slow(strategy: Chunked, artifact_id: str, *rest: object) -> object:
        if artifact_id.startswith("slow"):
            deadline = time.monotonic() + 30
            while "slow" not in caplog.text and time.monotonic() < deadline:
                time.sleep(0.02)
        return decompose(strategy, artifact_id, *rest)

    monkeypatch.setattr(Chunked, "decompose", slow)
    cli.write("fast.md", "fast")
    cli.write("slow [1].md", "slow")

    with caplog.at_level(logging.WARNING, logger="findingaid"):
        assert cli.run("index").exit_code == 0

    (line,) = [record.getMessage() for record in caplog.records if "takes over" in record.getMessage()]
    assert line.startswith(
        'docs: "slow [1].md" takes over 0.2 s at surfaces; to leave it out, add to corpora.docs.source:'
    )
    excluded = line.partition("exclude: ")[2]
    cli.settings["corpora"]["docs"]["source"]["exclude"] = yaml.safe_load(excluded)
    assert cli.json("index")["corpora"]["docs"]["deleted"] == 1


@pytest.mark.parametrize("name", ["a b.md", "!a.md", "#a.md", "[a].md", "a*?.md", "back\\slash.md"])
def test_the_pattern_of_a_path_matches_that_path_alone(tmp_path: Path, name: str) -> None:
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines([pattern_of(name)])

    assert spec.match_file(name)
    assert not any(spec.match_file(other) for other in ("a.md", "b.md", f"folder/{name}"))
