"""A budget is never exceeded for any model output, and concurrent runs pay for the same text once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

import findingaid
from findingaid import Corpus, FindingAid
from findingaid.claims.openai_claims import OpenAIClaims
from findingaid.corpus import Claiming
from findingaid.errors import ConfigError
from findingaid.indexing.budget import Budget, Price
from findingaid.reports import CorpusReport
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.synthesis.anchored import Anchored
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.synthesis.openai_summary import OpenAISummarizer
from findingaid.testing import CountingEmbedder, Fault, MemorySource, OpenAIServer, Request, faults
from findingaid.testing.openai_server import count_tokens
from tests.conftest import text_about

LIMIT = 300
PRICE = Price(input=2, output=8)


class Bill:
    """A server whose answers are of any length; it bills each request that it began to answer."""

    def __init__(self, said: Callable[[int], str]) -> None:
        self.tokens: list[tuple[int, int]] = []
        self._said = said
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> str:
        with self._lock:
            said = self._said(len(self.tokens))
            asked = sum(count_tokens(message["content"]) for message in request.json["messages"])
            self.tokens.append((asked, min(count_tokens(said), request.json["max_completion_tokens"])))
        return said

    @property
    def total(self) -> int:
        return sum(asked + said for asked, said in self.tokens)

    @property
    def money(self) -> float:
        return sum(asked * PRICE.input + said * PRICE.output for asked, said in self.tokens) / 1e6


def model(server: OpenAIServer, **parameters: Any) -> OpenAISynthesizer:
    given = {"max_output_tokens": LIMIT, "structured": False, "retries": 2, "timeout": 5.0} | parameters
    return OpenAISynthesizer("small", server.base_url, **given)


def aid_of(folder: Path, writer: Any, name: str = "docs", texts: int = 12, **changed: Any) -> FindingAid:
    synopsis = changed.pop("synopsis", {})
    claims = changed.pop("claims", None)
    embedder = changed.pop("embedder", None) or CountingEmbedder()
    payloads = {f"{i}.md": text_about(f"topic {i}") for i in range(texts)}
    strategy = Chunked() if writer is None else with_synopsis(Chunked(), writer, **synopsis)
    corpus = Corpus(name, MemorySource(payloads), strategy, claims=claims)
    return FindingAid(Store(str(folder / "index")), embedder, {name: corpus}, **changed)


def run(aid: FindingAid) -> CorpusReport:
    return next(iter(aid.index().corpora.values()))


VERBOSE = {"as long as it may be": lambda i: "word " * 5000, "of any length": lambda i: "word " * (i * 97 % 900)}


@pytest.mark.parametrize(
    ("said", "budget"),
    [("as long as it may be", {"tokens": 5_000}), ("of any length", {"money": 0.02}), ("of any length", {"calls": 5})],
)
def test_a_model_that_writes_more_than_expected_stays_within_the_budget(
    tmp_path: Path, said: str, budget: dict[str, Any]
) -> None:
    bill = Bill(VERBOSE[said])
    with OpenAIServer(answer=bill) as server:
        report = run(aid_of(tmp_path, model(server), budget=Budget(**budget), prices={"small": PRICE}))

    assert 0 < len(bill.tokens) < 12
    assert bill.total <= budget.get("tokens", bill.total)
    assert bill.money <= budget.get("money", bill.money)
    assert len(bill.tokens) <= budget.get("calls", len(bill.tokens))
    assert report.pending == 12 - len(bill.tokens)
    assert report.usage.tokens == bill.total


@pytest.mark.parametrize(
    "said",
    [None, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": True, "completion_tokens": True}],
    ids=["nothing", "zeros", "booleans"],
)
def test_an_answer_that_does_not_say_what_it_used_counts_as_the_most_it_may_have(tmp_path: Path, said: object) -> None:
    bill = Bill(lambda i: "short")
    silent = Fault("no usage", change=lambda completion: completion.update(usage=said))
    with OpenAIServer(answer=bill) as server:
        server.when(lambda request: True, silent)
        writer = model(server)
        most = writer.most(text_about("topic 1"))
        assert most
        report = run(aid_of(tmp_path, writer, budget=Budget(tokens=3 * most.tokens)))

    assert 3 <= len(bill.tokens) < 6
    assert report.usage.output_tokens == LIMIT * len(bill.tokens)
    assert report.usage.tokens <= 3 * most.tokens


@pytest.mark.parametrize(
    ("fault", "counts"), [(faults.server_error(retry_after=0.01), True), (faults.rate_limited(0), False)]
)
def test_a_request_that_is_sent_again_counts_unless_the_endpoint_refused_it(
    tmp_path: Path, fault: Fault, counts: bool
) -> None:
    bill = Bill(lambda i: "short")
    with OpenAIServer(answer=bill) as server:
        server.script(fault)
        report = run(aid_of(tmp_path, model(server, concurrency=1), texts=4, budget=Budget(calls=4)))

    assert len(server.completions) == 4 if counts else 5
    assert report.pending == (1 if counts else 0)


def test_a_budget_that_no_request_fits_in_sends_nothing_and_says_so(tmp_path: Path) -> None:
    with OpenAIServer() as server:
        report = run(aid_of(tmp_path, model(server), budget=Budget(tokens=500)))

    assert server.completions == []
    assert "the budget of this run is spent: the next synopsis may use up to" in report.left
    assert "500 are left" in report.left


def test_every_paid_caller_stays_within_the_budget(tmp_path: Path) -> None:
    """Long texts in parts, claims, anchored summaries and a fallback, each from the budget of its run."""
    bill = Bill(lambda i: "word " * 5000)
    with OpenAIServer(answer=bill) as server:
        given = {"max_output_tokens": LIMIT, "structured": False, "retries": 1}
        summarizer = OpenAISummarizer("small", server.base_url, context_tokens=4000, **given)
        extractor = OpenAIClaims("small", server.base_url, **given)
        each: dict[str, dict[str, Any]] = {
            "parts": {"writer": model(server, context_tokens=2000)},
            "anchored": {"writer": Anchored(summarizer)},
            "claims": {"writer": None, "claims": Claiming(extractor)},
            "fallback": {"writer": failing, "synopsis": {"fallback": model(server)}},
        }
        for name, parts in each.items():
            bill.tokens.clear()
            aid = aid_of(tmp_path / name, parts.pop("writer"), budget=Budget(tokens=12_000), **parts)
            if name == "parts":
                aid.corpora["docs"].source.payloads["0.md"] = "A sentence of some words. " * 3000  # type: ignore[attr-defined]
            aid.index()
            assert 0 < bill.total <= 12_000, name


def failing(text: str, metadata: object) -> str:
    raise TimeoutError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": {"money": 5}}, "budget.money: the model 'small' has no price"),
        ({"budget": {"money": 5}, "prices": {"large": {"input": 1, "output": 1}}}, "has no price.*prices.*large"),
        (
            {"budget": {"tokens": 5}, "synthesizer": {"max_output_tokens": None}},
            "budget.tokens: nothing bounds the answers of the model 'small': set its max_output_tokens",
        ),
    ],
)
def test_a_budget_that_cannot_be_kept_to_is_a_mistake_of_the_configuration(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    file = tmp_path / "findingaid.yaml"
    synthesizer = {"kind": "openai", "model": "small"} | settings.pop("synthesizer", {})
    corpus = {"source": {"kind": "files", "root": "."}, "synopsis": True}
    file.write_text(yaml.safe_dump({"synthesizer": synthesizer, "corpora": {"docs": corpus}} | settings))

    with pytest.raises(ConfigError, match=message):
        findingaid.open(file)


# -- runs at once ----------------------------------------------------------------------------------------


def test_what_the_other_run_failed_to_make_is_asked_for_by_this_one(tmp_path: Path) -> None:
    with OpenAIServer(delay=0.1) as server:
        poor = aid_of(tmp_path, model(server), budget=Budget(calls=3))
        rich = aid_of(tmp_path, model(server))
        poor.open_run().prepare()
        with ThreadPoolExecutor(2) as pool:
            reports = list(pool.map(run, [poor, rich]))

    assert reports[1].pending == 0
    assert len(server.completions) == 12
