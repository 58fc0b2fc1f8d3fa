"""A redaction killed after any commit is reported, and the next run completes it without paying again."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.claims.test_redaction import CLAIM, aid_of, assert_completed_by_the_next_run, build, redact_and_die


@pytest.mark.slow
def test_a_redaction_killed_after_any_commit_is_completed_by_the_next_run(tmp_path: Path) -> None:
    build(aid_of(str(tmp_path / "index")))
    whole = redact_and_die(shutil.copytree(tmp_path / "index", tmp_path / "whole"), after=0)
    commits = int(whole.stdout)

    for after in range(1, commits + 1):
        store = shutil.copytree(tmp_path / "index", tmp_path / f"index{after}")
        assert redact_and_die(store, after).returncode == -signal.SIGKILL

        problems = aid_of(str(store)).verify()
        assert any(CLAIM in line or "redacted claims" in line for line in problems), (after, problems)
        assert_completed_by_the_next_run(store)
    assert commits >= 6
