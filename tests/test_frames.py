"""Results as data frames."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from findingaid import ConfigError, FindingAid
from findingaid.metrics import evaluate_search
from findingaid.metrics.cases import Case, Cases


@pytest.fixture
def results(aid: FindingAid) -> dict[str, Callable[[], object]]:
    """What gives the data frame of each kind of result."""
    report = aid.index()
    cases = Cases(
        "known", [Case("1", "the ledger", {"docs/ledger.md": 1}), Case("2", "the reader", {"docs/reader.md": 1})]
    )
    evaluation = evaluate_search(aid, cases)
    return {
        "search": aid.search("ledger").to_pandas,
        "index": report.to_pandas,
        "plan": aid.plan().to_pandas,
        "status": aid.status().to_pandas,
        "evaluation": evaluation.to_pandas,
    }


def test_results_are_data_frames_with_a_row_for_each_hit_corpus_or_case(
    results: dict[str, Callable[[], object]],
) -> None:
    frames = {name: make() for name, make in results.items()}

    assert frames["search"].artifact_id[0] == "ledger.md"  # type: ignore[attr-defined]
    index, plan, status, evaluation = (frames[name] for name in ("index", "plan", "status", "evaluation"))
    columns = ["corpus", "new", "unchanged", "calls.synthesize"]
    assert index[columns].values.tolist() == [["docs", 3, 0, 3]]  # type: ignore[index]
    assert plan[columns].values.tolist() == [["docs", 0, 3, 0]]  # type: ignore[index]
    assert status[["corpus", "artifacts", "synopses.ok"]].values.tolist() == [["docs", 3, 3]]  # type: ignore[index]
    assert evaluation[["id", "query", "nDCG@10"]].values.tolist() == [  # type: ignore[index]
        ["1", "the ledger", 1.0],
        ["2", "the reader", 1.0],
    ]


def test_without_pandas_every_result_names_the_extra_that_brings_it(
    results: dict[str, Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    for make in results.values():
        with pytest.raises(ConfigError, match=r"^to_pandas: needs pandas: pip install 'findingaid\[pandas\]'$"):
            make()
