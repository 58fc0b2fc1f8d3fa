"""A schedule that Dagster would refuse is refused by its key, before the code location is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from findingaid.cli import main
from findingaid.errors import ConfigError
from findingaid_dagster import build_definitions


def written(folder: Path, key: str, cron: str) -> Path:
    """Write a configuration with a schedule; return its file."""
    corpus = {"source": {"kind": "files", "root": str(folder)}, key: cron}
    file = folder / "findingaid.yaml"
    file.write_text(yaml.safe_dump({"embedder": {"kind": "hash", "dim": 8}, "corpora": {"docs": corpus}}))
    return file


@pytest.mark.parametrize("key", ["schedule", "backfill_schedule"])
@pytest.mark.parametrize("cron", ["99 3 * * *", "0 25 * * *", "0 0 30 2 *", "0 0 * * 8", "a b c d e", "*/0 * * * *"])
def test_fields_that_name_no_time_are_named_by_the_check(tmp_path: Path, key: str, cron: str) -> None:
    file = written(tmp_path, key, cron)

    done = CliRunner().invoke(main, ["doctor", "--config", str(file)])

    assert done.exit_code == 1
    assert f"{file.name}: corpora.docs.{key}.cron: '{cron}' names no time" in done.stdout.replace("\n", " ")
    with pytest.raises(ConfigError, match=rf"corpora\.docs\.{key}\.cron"):
        build_definitions(file)


@pytest.mark.parametrize("cron", ["0 3 * * *", "*/15 8-18 * * mon-fri", "0 0 L * *", "0 0 * * 7"])
def test_fields_that_dagster_reads_pass_the_check(tmp_path: Path, cron: str) -> None:
    (tmp_path / "a.md").write_text("Text.")

    assert CliRunner().invoke(main, ["doctor", "--config", str(written(tmp_path, "schedule", cron))]).exit_code == 0
