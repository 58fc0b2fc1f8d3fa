"""Evaluation of an index on known queries: results are measured, compared, stored, and held to a floor."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import findingaid
from findingaid import ConfigError, FindingAid
from findingaid.evaluation.generated_cases import generate
from findingaid.evaluation.tuning import Tuning
from findingaid.indexing.checks import QUALITY
from findingaid.metrics import Evaluation, load_cases, measure_name
from findingaid.metrics.cases import Case
from findingaid.metrics.measures import interval, p_value, scores
from findingaid.metrics.rankings import CaseRanking, contains_passage
from findingaid.strategies.chunked import Chunked
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.testing import MemorySource, OpenAIServer, faults
from findingaid.testing.http import Request
from tests.conftest import Cli, ReadyMade, error_of, text_about

Make = Callable[..., FindingAid]

# -- measures --------------------------------------------------------------------------------------------


def test_measures_are_those_computed_by_hand() -> None:
    expected = [{"a": 2, "b": 1}, {"x": 1}]
    rankings = [["c", "b", "a"], ["y", "z"]]

    made = scores(expected, rankings, ["nDCG@10", "Recall@2", "MRR", "success@1", "precision@2", "MAP"])

    gained = 1 / math.log2(3) + 2 / math.log2(4)
    assert made[0] == pytest.approx([gained / (2 + 1 / math.log2(3)), 0.5, 0.5, 0, 0.5, (1 / 2 + 2 / 3) / 2])
    assert made[1].tolist() == [0] * 6


def test_a_ranking_keeps_its_order_where_ids_would_sort_otherwise() -> None:
    ids = [f"{i:03d}" for i in range(100)]

    for order in (ids, ids[::-1]):
        assert scores([{"070": 1}], [order], ["MRR"])[0, 0] == pytest.approx(1 / (order.index("070") + 1))


def test_a_ranking_of_nothing_counts_zero() -> None:
    assert scores([{"a": 1}, {"a": 1}], [[], ["a"]], ["MRR"])[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "name"), [("ndcg@10", "nDCG@10"), (" RECALL@5 ", "Recall@5"), ("mrr", "MRR"), ("Passage@3", "passage@3")]
)
def test_a_measure_is_named_in_any_case(text: str, name: str) -> None:
    assert measure_name(text) == name


@pytest.mark.parametrize("text", ["ndcg", "recall@0", "recall@x", "taste@5", ""])
def test_an_unknown_measure_is_named_with_the_known_ones(text: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown metric .*Known: nDCG@k, Recall@k, MRR"):
        measure_name(text)


def test_intervals_and_tests_agree_with_those_of_scipy() -> None:
    from scipy import stats  # takes seconds

    random = np.random.default_rng(7)
    one, other = random.beta(2, 1, 60), random.beta(2, 1.4, 60)

    low, high = interval(one, seed=1)
    theirs = stats.bootstrap((one,), np.mean, method="percentile", rng=np.random.default_rng(2)).confidence_interval
    p = stats.permutation_test(
        (one, other), lambda a, b: np.mean(a - b), permutation_type="samples", rng=np.random.default_rng(3)
    ).pvalue

    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.01)
    assert p_value(one - other) == pytest.approx(p, abs=0.02)
    assert (low, high) == interval(one, seed=1)
    assert p_value(np.zeros(60)) == 1


@pytest.mark.parametrize(
    ("text", "passage", "held"),
    [
        ("The box stands in the cold room.", "the box\nstands in the COLD room", True),
        ("Before it: the box stands in the cold", "the box stands in the cold room", True),
        ("The room is cold, and a box is in it.", "the box stands in the cold room", False),
        ("Kept", "kept", True),
        ("anything", "something else", False),
    ],
)
def test_a_text_holds_a_passage_however_both_are_cut(text: str, passage: str, held: bool) -> None:
    assert contains_passage(text, passage) is held


# -- cases -----------------------------------------------------------------------------------------------


def test_cases_are_yaml_or_json_lines(tmp_path: Path) -> None:
    cases = [
        {"query": "which ledger", "expected": "docs/ledger.md"},
        {"query": "who", "expected": {"docs/a.md": 2, "docs/b.md": 1}, "kind": "fact", "id": 7, "where": "a = 1"},
    ]
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(cases))
    (tmp_path / "b.yml").write_text(yaml.safe_dump({"generated_by": "model-1", "cases": cases}))
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, cases)))

    loaded = {path.name: load_cases(path) for path in tmp_path.iterdir()}

    for name, found in loaded.items():
        first, second = found.cases
        assert (first.query, first.expected, first.kind) == ("which ledger", {"docs/ledger.md": 1}, "")
        assert (second.id, second.expected, second.kind, second.where) == (
            "7", {"docs/a.md": 2, "docs/b.md": 1}, "fact", "a = 1",
        )  # fmt: skip
        assert found.generated_by == ("model-1" if name == "b.yml" else "")
        assert first.place.endswith(":1" if name != "b.yml" else ":2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "- query: a\n  expected: [docs/a.md]\n- query: b\n",
            "cases.yaml:3: expected: the case has no artifact that it expects: give `expected`, or `answerable: false`",
        ),
        ("- query: ' '\n  expected: docs/a.md\n", "cases.yaml:1: query: "),
        ("- query: a\n  expected: a.md\n", "cases.yaml:1: expected: 'a.md' does not have the form corpus/artifact"),
        ("- query: a\n  expected: []\n", "cases.yaml:1: expected: "),
        ("- query: a\n  expected: {docs/a.md: 0}\n", "cases.yaml:1: expected.docs/a.md: "),
        ("- query: a\n  expected: docs/a.md\n  knd: fact\n", "cases.yaml:1: knd: unknown key. Known: query, expected"),
        ("- query: a\n  expected: docs/a.md\n- query: a\n  expected: docs/b.md\n", "cases.yaml:3: duplicate case "),
        ("cases: 1\n", "cases.yaml: expected a list of cases"),
        ("case: []\n", "cases.yaml: unknown key 'case'. Known: cases, generated_by"),
        ("", "cases.yaml: expected a list of cases"),
        ("[]", "no cases"),
        ("- a\n- [", "cases.yaml:2: not YAML"),
        ("- just text\n", "cases.yaml:1: "),
    ],
)
def test_what_is_wrong_in_cases_is_one_line_with_its_place(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cases.yaml").write_text(text)

    result = cli.run("eval", "--set", str(tmp_path / "cases.yaml"))

    assert result.exit_code == 1
    assert message in error_of(result)


# -- over existing corpora -------------------------------------------------------------------------------

TOPICS = ("ledger", "vector", "reader")


@pytest.fixture
def indexed(cli: Cli, ready_made: ReadyMade) -> Cli:
    for topic in TOPICS:
        cli.write(f"{topic}.md", text_about(topic))
    ready_made("topics", lambda: cli.run("index"))
    cli.configure()
    return cli


def write_cases(cli: Cli, *cases: dict[str, Any]) -> str:
    path = cli.folder / "cases.yaml"
    path.write_text(yaml.safe_dump(list(cases)))
    return str(path)


def asking_for(topic: str, **more: Any) -> dict[str, Any]:
    return {"query": f"what of the {topic}", "expected": [f"docs/{topic}.md"], **more}


def test_cases_over_a_corpus_are_measured_by_kind(indexed: Cli) -> None:
    cases = write_cases(indexed, *(asking_for(topic, kind=f"about {topic}") for topic in TOPICS))

    (found,) = indexed.json("eval", "--set", cases, "--set", "mode=lexical")["evaluations"]

    assert found["scores"]["success@1"]["value"] == 1
    assert {kind: part["n"] for kind, part in found["kinds"].items()} == {f"about {topic}": 1 for topic in TOPICS}
    assert found["cases"][0]["found"][0] == "docs/ledger.md"


def test_a_passage_is_found_where_a_hit_holds_it(indexed: Cli) -> None:
    indexed.write("reader.md", text_about("reader", "readers and their tables"))
    indexed.run("index")
    cases = write_cases(
        indexed,
        asking_for("reader", passage="The readers and their tables is described here in a sentence"),
        asking_for("ledger", passage="This stands nowhere in any of the files"),
        asking_for("vector"),
    )

    (found,) = indexed.json("eval", "--set", cases, "--set", "mode=lexical")["evaluations"]

    assert [case["scores"]["passage@10"] for case in found["cases"]] == [1, 0, None]
    assert found["scores"]["passage@10"]["value"] == 0.5


def test_a_measure_of_passages_may_be_the_only_one_and_needs_a_passage(indexed: Cli) -> None:
    cases = write_cases(indexed, asking_for("ledger", passage="This stands nowhere"), asking_for("vector"))
    asked = ("eval", "--set", cases, "--metric", "passage@10", "--versus", "mode=lexical")
    found = indexed.json(*asked)
    write_cases(indexed, asking_for("ledger"))

    assert [case["scores"]["passage@10"] for case in found["evaluations"][0]["cases"]] == [0, None]
    assert "passage@10: no case has a passage" in error_of(indexed.run(*asked))


def test_settings_are_compared_by_the_cases_that_have_the_measure() -> None:
    cases = [Case("1", "a", {"docs/a": 1}, passage="a"), Case("2", "b", {"docs/b": 1})]
    tried = [
        ({"blend": place}, Evaluation("", cases, [CaseRanking([], place), CaseRanking([])], ["passage@1"]))
        for place in (2, 1)
    ]

    assert Tuning("passage@1", tried).best[0] == {"blend": 1}


def test_two_ways_of_asking_are_compared(indexed: Cli) -> None:
    cases = write_cases(indexed, *map(asking_for, TOPICS))
    arguments = ["eval", "--set", cases, "--set", "mode=lexical", "--versus", "mode=dense", "--metric", "mrr"]

    told = indexed.json(*arguments)
    shown = indexed.run(*arguments)

    lexical, dense = told["evaluations"]
    (comparison,) = told["comparisons"]
    difference = comparison["differences"]["MRR"]
    assert (comparison["name"], comparison["versus"]) == ("mode=lexical", "mode=dense")
    assert difference["value"] == pytest.approx(lexical["scores"]["MRR"]["value"] - dense["scores"]["MRR"]["value"])
    assert difference["low"] <= difference["value"] <= difference["high"]
    assert "mode=lexical compared with mode=dense" in shown.stdout
    assert told == indexed.json(*arguments)


def test_another_configuration_is_compared_by_its_file(indexed: Cli) -> None:
    other = indexed.folder / "other.yaml"
    settings = indexed.settings | {"store": "other"}
    settings["corpora"] = {"docs": indexed.settings["corpora"]["docs"] | {"strategy": {"name": "WholeText"}}}
    other.write_text(yaml.safe_dump(settings))
    findingaid.open(other).index()
    cases = write_cases(indexed, *map(asking_for, TOPICS))

    told = indexed.json("eval", "--set", cases, "--set", "mode=lexical", "--versus", str(other))

    assert told["comparisons"][0]["versus"] == str(other)
    assert told["comparisons"][0]["differences"]["MRR"]["value"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "mode=dense"], "--set: expected one file of cases, got none"),
        (["--versus", "corpora.docs.strategy.name=WholeText"], "the published index is evaluated unchanged"),
        (["--versus", "embedder={kind: hash, dim: 8}"], "the published index is evaluated unchanged"),
        (["--versus", "mode"], "--set: expected key=value, got 'mode'"),
        (["--versus", " "], "--versus: expected key=value"),
        (["--versus", "mode=sideways"], "mode: must be 'dense', 'lexical' or 'hybrid', got 'sideways'"),
        (["--versus", "nowhere.yaml"], "no configuration at nowhere.yaml"),
        (["--set", "taste=sweet"], "taste: neither a search option nor a setting. Known: mode"),
        (["--metric", "taste"], "unknown metric 'taste'"),
        (["--corpus", "nope"], "unknown corpus 'nope'"),
        (["--set", "store=elsewhere"], "nothing is published in"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line(indexed: Cli, arguments: list[str], message: str) -> None:
    cases = [] if "got none" in message else ["--set", write_cases(indexed, asking_for("ledger"))]

    result = indexed.run("eval", *cases, *arguments)

    assert result.exit_code == 1
    assert message in error_of(result)


def test_without_its_extra_an_evaluation_says_what_to_install(indexed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)

    result = indexed.run("eval", "--set", write_cases(indexed, asking_for("ledger")))

    assert error_of(result) == "evaluations need ir-measures: pip install 'findingaid[evaluation]'"


def test_a_case_that_expects_what_is_not_there_is_named(indexed: Cli) -> None:
    cases = write_cases(indexed, asking_for("ledger"), asking_for("ghost"), asking_for("phantom"))

    result = indexed.run("eval", "--set", cases)

    assert result.exit_code == 1
    assert "cases.yaml:4: expected 'docs/ghost.md' is not in the published index (and 1 more)" in result.stderr


def test_a_case_whose_search_cannot_find_what_it_expects_is_named(indexed: Cli) -> None:
    indexed.settings["corpora"]["others"] = indexed.settings["corpora"]["docs"]
    indexed.configure()
    elsewhere = asking_for("vector", where="artifact_id = 'ledger.md'")
    cases = write_cases(indexed, asking_for("ledger", where="artifact_id = 'ledger.md'"), elsewhere)

    of_filter = indexed.run("eval", "--set", cases)
    of_corpus = indexed.run("eval", "answers", "--set", cases, "--corpus", "others")

    assert error_of(of_filter).endswith("cases.yaml:5: expected 'docs/vector.md' has nothing that matches `where`")
    expected = "cases.yaml:1: expected 'docs/ledger.md' is not in the corpora to search: others (and 1 more)"
    assert error_of(of_corpus).endswith(expected)


# -- a floor ---------------------------------------------------------------------------------------------


@pytest.fixture
def with_floor(cli: Cli) -> Cli:
    """Cases that the current index answers."""
    for topic in TOPICS:
        cli.write(f"{topic}.md", text_about(topic))
    write_cases(cli, *map(asking_for, TOPICS))
    cli.settings["corpora"]["docs"]["quality"] = {"cases": "cases.yaml", "metric": "success@1", "floor": 0.9}
    return cli


@pytest.fixture
def met(with_floor: Cli, ready_made: ReadyMade) -> Cli:
    ready_made("topics above a floor", lambda: with_floor.run("index"))
    with_floor.configure()
    return with_floor


def result_of(aid: FindingAid) -> Any:
    (result,) = [result for result in aid.check() if result.check is QUALITY]
    return result


def test_what_meets_its_floor_is_published(met: Cli) -> None:
    aid = findingaid.open(met.config)
    result = result_of(aid)

    assert {hit.artifact_id for hit in aid.search("ledger")} == {f"{topic}.md" for topic in TOPICS}

    assert result.passed
    assert result.facts["success@1"] == 1
    assert (result.facts["cases"], result.facts["floor"]) == (3, 0.9)


def test_what_falls_below_its_floor_is_not_published(met: Cli) -> None:
    for topic in TOPICS:  # found before the expected artifact
        met.write(f"noise/{topic}.md", f"what of the {topic}")

    result = met.run("index")

    assert result.exit_code == 1
    assert "readers keep the previous version: docs: check quality: success@1 is " in result.stderr
    assert "over 3 cases, below the floor of 0.9; worst: 'what of the " in result.stderr
    assert not any(hit["artifact_id"].startswith("noise") for hit in met.json("search", "what of the ledger"))
    assert met.run("publish").exit_code == 1
    met.settings["corpora"]["docs"]["quality"]["floor"] = 0
    assert met.run("publish").exit_code == 0


def test_a_first_run_is_held_to_the_floor_too(with_floor: Cli) -> None:
    write_cases(with_floor, {"query": "ledger", "expected": ["docs/elsewhere.md"]})

    assert "success@1 is 0.000" in with_floor.run("index").stderr
    assert "nothing is published" in with_floor.run("search", "ledger").stderr


def test_a_run_that_changes_nothing_asks_nothing(met: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FindingAid, "search", lambda *_, **__: pytest.fail("a query was put"))

    assert met.run("index").exit_code == 0


def test_a_run_embeds_no_question_that_an_earlier_one_did(with_floor: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with_floor.run("index")
    with_floor.write("more.md", text_about("more"))
    embedded: list[str] = []
    embed_query = findingaid.embedding.hashing.HashEmbedder.embed_query

    def noted(self: Any, text: str) -> Any:
        embedded.append(text)
        return embed_query(self, text)

    monkeypatch.setattr("findingaid.embedding.hashing.HashEmbedder.embed_query", noted)

    assert with_floor.run("index").exit_code == 0

    assert not [text for text in embedded if text.startswith("what of")]


def test_a_floor_of_all_corpora_is_each_ones_by_its_own_cases(with_floor: Cli) -> None:
    quality = with_floor.settings["corpora"]["docs"].pop("quality")
    with_floor.settings["quality"] = quality
    (with_floor.folder / "notes").mkdir()
    (with_floor.folder / "notes" / "tide.md").write_text(text_about("tide"))
    with_floor.settings["corpora"]["notes"] = {"source": {"kind": "files", "root": "notes"}}
    write_cases(with_floor, *map(asking_for, TOPICS), {"query": "tide", "expected": "notes/tide.md"})

    assert with_floor.run("index").exit_code == 0

    found = {r.corpus: r.facts["cases"] for r in findingaid.open(with_floor.config).check() if r.check is QUALITY}
    assert found == {"docs": 3, "notes": 1}


def test_broken_cases_keep_a_run_from_publishing(with_floor: Cli) -> None:
    (with_floor.folder / "cases.yaml").write_text("- query: a\n")

    result = with_floor.run("index")

    assert result.exit_code == 1
    assert "check quality: " in result.stderr
    assert "cases.yaml:1: expected: the case has no artifact" in result.stderr


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"floor": 2}, "corpora.docs.quality.floor: "),
        ({"metric": "taste"}, "corpora.docs.quality.metric: unknown metric 'taste'. Known: nDCG@k"),
        ({"cases": None}, "corpora.docs.quality.cases: "),
        ({"flor": 1}, "corpora.docs.quality.flor: unknown key"),
    ],
)
def test_a_floor_that_makes_no_sense_is_named(with_floor: Cli, changed: dict[str, Any], message: str) -> None:
    with_floor.settings["corpora"]["docs"]["quality"] |= changed

    result = with_floor.run("status")

    assert result.exit_code == 1
    assert message in result.stderr


# -- generated cases -------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(answer=question) as server:
        yield server


def question(request: Request) -> str:
    """Write a question about the beginning of a passage; return nothing for a licence."""
    words = [word for word in request.content.split() if word.isalpha()]
    return "" if "licence" in words else f"What is said of {' '.join(words[1:3])} here"


@pytest.fixture
def answered(cli: Cli, server: OpenAIServer, ready_made: ReadyMade) -> Cli:
    for topic in ("ledger", "vector", "reader", "licence"):
        cli.write(f"{topic}.md", text_about(topic) * 4)
    cli.settings["corpora"]["docs"] |= {
        "strategy": {"name": "Chunked", "chunk_size": 400, "overlap": 0},
        "synopsis": {"synthesizer": {"kind": "openai", "model": "m", "base_url": server.base_url, "api_key": "k"}},
    }
    ready_made("topics with synopses", lambda: cli.run("index"))
    cli.configure()
    server.requests.clear()
    return cli


def test_a_model_writes_cases_that_cite_their_passages(answered: Cli, server: OpenAIServer) -> None:
    path = answered.folder / "made.yaml"

    result = answered.run("eval", "generate", "--corpus", "docs", "-n", "4", "-o", str(path))

    assert result.exit_code == 0, result.output
    made = yaml.safe_load(path.read_text())
    assert made["generated_by"].startswith("openai-m-")
    assert sorted(case["expected"][0] for case in made["cases"]) == [
        "docs/ledger.md", "docs/reader.md", "docs/vector.md",
    ]  # fmt: skip
    for case in made["cases"]:
        start, end = case["span"]
        assert (answered.docs / case["expected"][0].removeprefix("docs/")).read_text()[start:end] == case["passage"]
        assert case["kind"] == "generated"
    assert "You write test questions" in server.completions[0].json["messages"][0]["content"]
    (found,) = answered.json("eval", "--set", str(path), "--set", "mode=lexical")["evaluations"]
    assert found["scores"]["passage@10"]["value"] == 1


def test_the_price_of_cases_is_stated_before_they_are_written(answered: Cli, server: OpenAIServer) -> None:
    answered.settings["prices"] = {"m": {"input": 1.0, "output": 2.0}}

    price = answered.json("eval", "generate", "-c", "docs", "-n", "4", "-o", "made.yaml", "--plan")

    assert not server.completions
    assert (price["cases"], price["calls"]) == (4, 4)
    assert price["input_tokens"] > 4 * 50
    assert price["cost"] == pytest.approx((price["input_tokens"] + 2 * price["output_tokens"]) / 1e6)
    assert not (answered.folder / "made.yaml").exists()


@pytest.mark.slow
def test_tuning_advises_what_is_more_than_chance(cli: Cli) -> None:
    """Hash vectors have no meaning, so that only words find anything."""
    words = [f"word{i:02d}" for i in range(40)]
    for word in words:
        cli.write(f"{word}.md", f"All of these pages are alike, but for {word}.")
    cases = [{"query": f"pages alike {word}", "expected": f"docs/{word}.md"} for word in words]
    (cli.folder / "cases.yaml").write_text(yaml.safe_dump(cases))
    cli.settings["search"] = {"blend": 1.0}
    assert cli.run("index").exit_code == 0

    found = cli.json("eval", "tune", str(cli.folder / "cases.yaml"), "--metric", "success@1")
    shown = cli.run("eval", "tune", str(cli.folder / "cases.yaml"), "--metric", "success@1")
    cli.settings["search"] = found["advice"]
    again = cli.json("eval", "tune", str(cli.folder / "cases.yaml"), "--metric", "success@1")

    assert found["advice"]["blend"] == 0.0
    assert found["gain"] > 0.8
    assert found["corrected_p"] < 0.05
    assert "search:\n  blend: 0.0\n" in shown.stdout
    assert again["advice"] == {}
    assert again["tried"][0]["success@1"]["value"] == 1


def test_the_same_draw_is_not_paid_for_twice(answered: Cli, server: OpenAIServer) -> None:
    for name in ("one.yaml", "two.yaml"):
        answered.run("eval", "generate", "-c", "docs", "-n", "3", "-o", str(answered.folder / name))

    assert len(server.completions) == 3
    one, two = (yaml.safe_load((answered.folder / name).read_text()) for name in ("one.yaml", "two.yaml"))
    assert one == two


def test_a_question_that_could_not_be_written_is_named(answered: Cli, server: OpenAIServer) -> None:
    server.when(lambda request: "vector" in request.content, faults.refusal())
    path = answered.folder / "made.yaml"

    result = answered.run("eval", "generate", "-c", "docs", "-n", "4", "-o", str(path))

    assert result.exit_code == 1
    assert "docs/vector.md: the model or a filter refused" in result.stderr
    assert len(yaml.safe_load(path.read_text())["cases"]) == 2


def test_a_file_of_cases_is_not_written_over(answered: Cli) -> None:
    path = answered.folder / "made.yaml"
    path.write_text("mine")

    result = answered.run("eval", "generate", "-c", "docs", "-o", str(path))

    assert result.exit_code == 1
    assert "already exists: name another file" in result.stderr
    assert path.read_text() == "mine"


def test_only_a_model_writes_questions(indexed: Cli) -> None:
    result = indexed.run("eval", "generate", "-c", "docs", "-o", "made.yaml")

    assert result.exit_code == 1
    assert "corpora.docs.synopsis: a model must write the questions" in result.stderr


def test_passages_are_drawn_over_all_artifacts_first(make_aid: Make, server: OpenAIServer) -> None:
    texts = {"long.md": text_about(*"abcdef") * 3, "short.md": text_about("quill") * 3, "ink.md": text_about("ink") * 3}
    source = MemorySource(dict(texts))
    writer = OpenAISynthesizer("m", base_url=server.base_url, api_key="k")
    aid = make_aid(source=source, synthesizer=writer, strategy=Chunked(chunk_size=400, overlap=0))
    aid.index()

    drawn: Sequence[Any] = generate(aid, "docs", 3).cases

    assert sorted(case["expected"][0] for case in drawn) == ["docs/ink.md", "docs/long.md", "docs/short.md"]
