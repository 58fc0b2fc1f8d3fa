"""Invalid input gives one clear line and an error status, on the command line and in the library."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import findingaid
from findingaid import FindingAid, Hit, QueryError
from findingaid.cli import main
from findingaid.errors import FindingAidError
from findingaid.query.search import Recency
from findingaid.query.search.filters.syntax import MAX_FILTER_CHARS, MAX_NESTING
from findingaid.query.search.routing import ROUTES
from findingaid.store import schemas
from findingaid.store.schemas import RECORDS_VERSION
from tests.conftest import Cli, ReadyMade, error_of, text_about

TOPICS = ("ledger", "vector", "reader")


def build(folder: Path) -> Cli:
    """Three files that refer to one of them, with a synopsis each."""
    cli = Cli(folder)
    for topic in TOPICS:
        cli.write(f"{topic}.md", f"{text_about(topic)}\n\nSee [the ledger](ledger.md).")
    cli.settings["corpora"]["docs"]["synopsis"] = True
    return cli


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    cli = build(tmp_path_factory.mktemp("asked"))
    assert cli.run("index").exit_code == 0
    return cli


@pytest.fixture(scope="module")
def aid(cli: Cli) -> FindingAid:
    return findingaid.open(cli.config)


@pytest.fixture
def own(tmp_path: Path, ready_made: ReadyMade) -> Cli:
    """One that a test may damage."""
    own = build(tmp_path)
    ready_made("bad input", lambda: own.run("index"))
    own.configure()
    return own


def refusal(result: Result) -> str:
    """Return the error message of a command, which must be its only output."""
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    line = error_of(result)
    assert len(line) < 2_000
    return line


# -- the query -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (" \t\n", "the query is empty: give it at least one word"),
        ("x" * 100_000, "the query has 100,000 characters, at most 10,000: shorten it"),
        ("?! … --", "is only punctuation: give it at least one word"),
        ("\0", "is only punctuation"),
        ("\udcff", "is only punctuation"),
        ("\u202e\u200f", "is only punctuation"),
    ],
)
def test_a_query_without_words_is_refused(cli: Cli, query: str, message: str) -> None:
    assert message in refusal(cli.run("search", query))
    assert message in refusal(cli.run("search", "ledger", "--also", query))


@pytest.mark.parametrize(
    "query", ["nul\0nul", "half \ud83d", "\u202eledger", "🗂", "דבר", "e\u0301", "'; DROP TABLE records"]
)
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_any_unicode_is_a_query_on_the_command_line(cli: Cli, query: str, mode: str) -> None:
    result = cli.run("search", query, "--mode", mode, "--explain")

    assert (result.exit_code, result.stderr) == (0, "")


# -- options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "-1"], "k must be at least 1, got -1"),
        (["-k", "9" * 30], "k plus offset must be at most 10,000"),
        (["--offset", "9" * 30], "k plus offset must be at most 10,000"),
        (["--corpus", ""], "unknown corpus ''. Known: docs"),
        (["--surfaces", "chunk,nope"], "unknown surface kind 'nope'. Known: chunk, synopsis"),
        (["--surfaces", ""], "unknown surface kind ''. Known: chunk, synopsis"),
        (["--surfaces", "half \ud83d"], "unknown surface kind 'half \\ud83d'. Known: chunk, synopsis"),
        (["--weight", "chunk"], "--weight: expected a name and a number, such as description=2, got 'chunk'"),
        (["--weight", "chunk=nan"], "the weight of chunk must be above 0, got nan"),
        (["--weight", "chunk=inf"], "the weight of chunk must be above 0, got inf"),
        (["--recency", "path"], "--recency: expected a name and a number"),
        (["--recency", "path=nan"], "the half-life of path must be above 0 days, got nan"),
        (["--blend", "nan"], "blend, the share of dense, must be from 0 to 1, got nan"),
        (["--route", "half \ud83d:x"], "route: 'half \\ud83d:x' cannot be imported"),
        (["--rerank", ""], "--rerank: is empty: name a kind, or none"),
        (["--rerank", "{kind: ["], "--rerank: '{kind: [' is not YAML"),
        (["--rerank", "{a: " * 2_000], "is not YAML"),
        (["--select", "{kind: gap, fewest: 0}"], "select.fewest: must be greater than 0, got 0"),
        (["--rewrite", "nope"], "rewrite.kind: unknown rewriter 'nope'. Known: openai"),
        (["--rewrite", "openai"], "rewrite.model: missing, but required"),
        (["--expand", "-1"], "expand: expected a number of neighbours, section or artifact, got '-1'"),
        (["--set", "search.expand=chapter"], "search.expand: must be 'section' or 'artifact', got 'chapter'"),
        (["--set", "lexical.language=Klingon"], "lexical.language: must be 'Arabic', "),
    ],
)  # fmt: skip
def test_an_option_that_makes_no_sense_is_one_line(cli: Cli, arguments: list[str], message: str) -> None:
    assert message in refusal(cli.run("search", "ledger", *arguments))


@pytest.mark.parametrize("arguments", [["--mode", "fuzzy"], ["-k", "many"], ["--nope"], ["--blend", "half"]])
def test_what_the_command_line_itself_refuses_says_so_on_its_last_line(cli: Cli, arguments: list[str]) -> None:
    result = cli.run("search", "ledger", *arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("arguments", [["--timeout", "inf"], ["--offset", "9990"], ["--expand", "9" * 30]])
def test_the_extremes_of_what_makes_sense_are_answered(cli: Cli, arguments: list[str]) -> None:
    assert cli.run("search", "ledger", *arguments).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nope"], "no published artifact or record 'nope': `findingaid search` shows ids"),
        (["show", ""], "no published artifact or record ''"),
        (["show", "ledger.md' OR '1'='1"], "no published artifact or record"),
        (["show", "x" * 100_000], f"no published artifact or record '{'x' * 80}…'"),
        (["neighbours", "x" * 100_000], f"no published artifact '{'x' * 80}…'"),
        (["show", "ledger.md", "--corpus", "x" * 100_000], f"unknown corpus '{'x' * 80}…'"),
        (["search", "a", "--route", "x" * 100_000], f"unknown route '{'x' * 80}…'"),
        (["search", "a", "--surfaces", "x" * 100_000], f"unknown surface kind '{'x' * 80}…'"),
        (["search", "?" * 9_000], f"the query '{'?' * 80}…' is only punctuation"),
        (["show", "half \ud83d"], "'half \\ud83d' has half of a character: it names nothing"),
        (["show", "ledger.md", "--corpus", "nope"], "unknown corpus 'nope'. Known: docs"),
        (["show", "ledger.md", "--history", "--corpus", "nope"], "unknown corpus 'nope'. Known: docs"),
        (["show", "ledger.md", "--level", "body", "--corpus", "nope"], "unknown corpus 'nope'. Known: docs"),
        (["neighbours", "nope"], "no published artifact 'nope': `findingaid search` shows ids"),
        (["neighbours", "half \ud83d", "--reverse"], "has half of a character: it names nothing"),
        (["neighbours", "--kind", "half \ud83d"], "has half of a character: it names nothing"),
        (["neighbours", "ledger.md", "--corpus", "nope"], "unknown corpus 'nope'. Known: docs"),
        (["neighbours", "-k", "0"], "k must be at least 1, got 0"),
    ],
)
def test_an_id_that_names_nothing_is_one_line(cli: Cli, arguments: list[str], message: str) -> None:
    assert message in refusal(cli.run(*arguments))


def test_any_number_of_the_most_referenced_can_be_asked_for(cli: Cli) -> None:
    assert [found["artifact_id"] for found in cli.json("neighbours", "-k", "9" * 30)] == ["ledger.md"]


# -- filters ---------------------------------------------------------------------------------------------


def test_what_is_no_filter_or_tries_something_else_is_one_line(cli: Cli) -> None:
    for where in (
        "",
        "path =",
        "nope = 1",
        "path",
        "null",
        "*",
        "DROP TABLE records",
        "path = 'a'; --",
        "path = 'a' LIMIT 1",
        "row_number() OVER () = 1",
        "path = $1",
        "path = @x",
        "pg_sleep(10) IS NULL",
        "read_csv('/etc/passwd') IS NULL",
        "lo_import('/etc/passwd') = 1",
        "chunk_index / 0 = 1",
        "CAST(path AS INT) = 1",
        "regexp_like(path, '(')",
        "_distance > 0",
        "path = 'half \ud83d'",
    ):
        shown = refusal(cli.run("search", "ledger", "--where", where))
        assert shown.startswith(f"where {where!r}: ")
        assert "Fields: record_id, corpus, artifact_id" in shown
    assert cli.run("verify").exit_code == 0


def test_no_filter_leads_out_of_the_corpora_asked_for(own: Cli) -> None:
    """Nor out of the surfaces, for any comparison and any ending."""
    (own.folder / "secret").mkdir()
    (own.folder / "secret" / "a.md").write_text(text_about("ledger"))
    own.settings["corpora"]["secret"] = {"source": {"kind": "files", "root": "secret"}}
    own.run("index")

    for where in ("1=1 --", "1=1 /*", "path = 'x' OR 1=1", "path = 'x' OR corpus = 'secret'", "corpus = 'secret' --"):
        result = own.run("search", "ledger", "-c", "docs", "--surfaces", "chunk", "--where", where, "--json")
        assert '"secret"' not in result.stdout
        assert '"synopsis"' not in result.stdout
        assert result.exit_code == 0 or where.endswith("/*")


@pytest.mark.parametrize(
    "nested",
    ["chunk_index = 1" + " + 1" * 5_000, "path = 'a'" + " || 'a'" * 5_000, "path" + " IS NULL" * 5_000,
     "chunk_index" + "::int" * 5_000 + " = 1", "(" * 5_000 + "true" + ")" * 5_000, "NOT " * 5_000 + "true"],
    ids=lambda where: where[:20],
)  # fmt: skip
def test_a_filter_that_would_take_lance_down_is_refused(cli: Cli, nested: str) -> None:
    shown = refusal(cli.run("search", "ledger", "--where", nested))

    assert f"more than {MAX_NESTING} nested operators; for one of many values write `name IN (…)`" in shown


def test_long_filters_are_answered_as_long_as_they_are_flat(aid: FindingAid) -> None:
    many = ", ".join(f"'{i}.md'" for i in range(5_000))

    assert aid.search("ledger", where=f"artifact_id NOT IN ({many}) AND {'chunk_index >= 0 AND ' * 300} true")
    assert aid.search("ledger", where=f"chunk_index = 0{' + 0' * (MAX_NESTING - 10)}")
    with pytest.raises(QueryError, match=f"120,000 characters, at most {MAX_FILTER_CHARS:,}: ask in several"):
        aid.search("ledger", where=f"artifact_id IN ({many}, {many}, {'1' * 20_000})"[:120_000])


# -- the store -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "configured"), [("fp32", "int8"), ("int8", "fp32")])
def test_an_index_of_another_precision_names_that_setting(own: Cli, made: str, configured: str) -> None:
    own.settings["embedder"] = {"kind": "sentence-transformers", "dimensions": 64, "precision": made}
    assert own.run("index").exit_code == 0
    own.settings["embedder"]["precision"] = configured

    said = refusal(own.run("search", "ledger"))

    assert f": run `findingaid index`, set `embedder.precision: {made}`, or " in said
    assert own.run("search", "ledger", "--set", f"embedder.precision={made}").exit_code == 0
    own.settings["embedder"]["dimensions"] = 32
    assert ", set `embedder` back, or " in refusal(own.run("search", "ledger"))


def test_a_store_that_cannot_answer_is_one_line(own: Cli) -> None:
    missing = own.run("search", "ledger", "--set", "store=nowhere")
    a_file = own.run("search", "ledger", "--set", "store=findingaid.yaml")
    embedder = own.run("search", "ledger", "--set", "embedder={kind: hash, dim: 8}")
    lexical = own.run("search", "ledger", "--mode", "lexical", "--set", "embedder={kind: hash, dim: 8}")

    assert "nothing is published in " in refusal(missing)
    assert refusal(missing).endswith(": run `findingaid index`")
    for command in ("versions", "publish", "rollback"):
        assert refusal(own.run(command, "--set", "store=nowhere")).endswith(" yet: run `findingaid index`")
    assert "is not a folder: name another, or move it away" in refusal(a_file)
    assert refusal(embedder) == (
        "the index was made with embedder hash-384, the configuration says hash-8: run `findingaid index`,"
        " set `embedder` back, or restart a server whose configuration has changed since"
    )
    assert lexical.exit_code == 0  # words need no embedder

    store = findingaid.open(own.config).store
    store.dataset("records").update_schema_metadata({schemas.VERSION_KEY.decode(): "records-2"})
    findingaid.open(own.config).publisher.publish()
    assert refusal(own.run("search", "ledger")) == (
        f"the index has records of schema records-2, this version of findingaid reads {RECORDS_VERSION}:"
        " run `findingaid index`"
    )

    shutil.rmtree(own.folder / "index" / "records.lance")
    for command in (["search", "ledger"], ["show", "ledger.md"], ["neighbours", "ledger.md"]):
        assert refusal(own.run(*command)).endswith("run `findingaid index`")


def test_a_store_that_is_being_written_answers_from_what_was_published(own: Cli) -> None:
    before = own.json("search", "ledger", "-k", "50")
    own.write("new.md", text_about("ledger anew"))
    own.write("vector.md", "No more of it.")
    aid = findingaid.open(own.config)

    aid.indexer("docs").build(aid.open_run().plan("docs").stale)  # and the run has not ended yet

    assert own.json("search", "ledger", "-k", "50") == before
    assert own.run("index").exit_code == 0
    assert {hit["artifact_id"] for hit in own.json("search", "ledger", "-k", "50")} > {"new.md"}


# -- evaluations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("long.yaml", yaml.safe_dump([{"query": "x" * 100_000, "expected": "docs/ledger.md"}]),
         "long.yaml:1: the query has 100,000 characters"),
        ("where.yaml", "- {query: a, expected: docs/ledger.md}\n- {query: b, expected: docs/ledger.md, where: n = 1}",
         "where.yaml:2: where 'n = 1': docs has no field 'n'"),
        ("signs.yaml", "- {query: '?!', expected: docs/ledger.md}", "signs.yaml:1: the query '?!' is only"),
        ("corpus.yaml", "- {query: a, expected: nope/ledger.md}\n", "corpus.yaml:1: expected 'nope/ledger.md' is"),
        ("code.yaml", "- !!python/object/apply:os.system [ls]\n", "code.yaml:1: not YAML: could not determine"),
        ("deep.yaml", "{a: " * 2_000, "deep.yaml: not YAML: too deep"),
        ("binary.yaml", "\udcff\udcfe", "binary.yaml cannot be read: it is not UTF-8 text"),
        ("half.jsonl", '{"query": "\\ud800", "expected": "docs/ledger.md"}', "half.jsonl:1: not JSON"),
        ("cases.txt", "a", "cases.txt: unknown suffix. Known: .yaml, .yml, .jsonl, .ndjson"),
    ],
)  # fmt: skip
def test_cases_that_cannot_be_put_are_named_by_their_line(
    cli: Cli, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))

    assert message in refusal(cli.run("eval", "--set", str(tmp_path / name)))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("weights=3", "weights: expected keys and values, got 3"),
        ("weights={chunk: much}", "weights.chunk: expected a number"),
        ("weights={nope: 1}", "unknown surface kind 'nope'. Known: chunk, synopsis"),
        ("surfaces=chunk", "surfaces: expected a list, got 'chunk'"),
        ("blend=half", "blend: expected a number from 0 to 1, or rrf"),
        ("recency=3", "recency: expected keys and values"),
        ("recency={field: path, half_life: 0}", "the half-life of path must be above 0 days, got 0"),
        ("route=tree", "unknown route 'tree'. Known: flat"),
        ("rerank=nope", "rerank.kind: unknown reranker 'nope'"),
        ("expand=chapter", "expand: expected a number of neighbours"),
        ("k=3", "k: neither a search option nor a setting"),
    ],
)
def test_an_option_of_an_evaluation_that_makes_no_sense_is_one_line(cli: Cli, option: str, message: str) -> None:
    cases = cli.folder / "cases.yaml"
    cases.write_text("- {query: the ledger, expected: docs/ledger.md}\n")

    assert refusal(cli.run("eval", "--set", str(cases), "--set", option)).startswith(message)


def test_options_of_an_evaluation_have_the_types_that_a_search_takes(cli: Cli) -> None:
    cases = cli.folder / "cases.yaml"
    cases.write_text("- {query: the ledger, expected: docs/ledger.md}\n")
    said = [
        "weights={chunk: 2}",
        "surfaces=[chunk]",
        "recency={field: path, half_life: 30}",
        "route=boost",
        "blend=0.3",
    ]

    result = cli.run("eval", "--set", str(cases), *(word for each in said for word in ("--set", each)))

    assert result.exit_code == 0, result.output
    assert cli.run("eval", "--set", str(cases), "--seed", "-1").exit_code == 2


# -- anything at all -------------------------------------------------------------------------------------

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=40)
WORDS = st.text("ledgrvcto \0\ud83d'\"()*:🗂", min_size=1, max_size=30)
SQL = st.lists(
    st.sampled_from(
        ["path", "chunk_index", "headings", "nope", "'a'", "1", "=", "<", "(", ")", "AND", "OR", "NOT", "IS NULL", "IN",
         "LIKE", "BETWEEN", "--", "/*", ";", "`", "'", '"', "SELECT", "||", "+", "::int", "CASE", "timestamp", "NULL",
         "array_has(headings, 'a')", "N'a'", "X'f'", "$1", "[1]", "\0", "lower(path)", "true"]
    ),
    max_size=8,
).map(" ".join)  # fmt: skip
NUMBERS = st.one_of(st.integers(-2, 60), st.integers(), st.just(10_000))
FLOATS = st.one_of(st.floats(), st.floats(0, 1))
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "k": NUMBERS,
        "offset": NUMBERS,
        "mode": st.sampled_from(["dense", "lexical", "hybrid", "", "DENSE"]),
        "where": st.one_of(SQL, ANYTHING, st.just("chunk_index = 0")),
        "surfaces": st.lists(st.sampled_from(["chunk", "synopsis", "nope", "\ud83d"]), max_size=2),
        "corpora": st.lists(st.sampled_from(["docs", "docs", "docs", "nope"]), max_size=2),
        "weights": st.dictionaries(st.sampled_from(["chunk", "synopsis", "nope"]), FLOATS, max_size=2),
        "blend": st.one_of(st.none(), FLOATS),
        "recency": st.builds(Recency, st.sampled_from(["path", "chunk_index", "nope"]), FLOATS),
        "per_artifact": st.booleans(),
        "explain": st.booleans(),
        "timeout": st.one_of(st.floats(60), st.floats(max_value=0)),
        "route": st.one_of(st.sampled_from([*ROUTES, "tree"]), ANYTHING),
        "expand": st.one_of(NUMBERS, st.sampled_from(["section", "artifact", "chapter"]), ANYTHING),
        "select": st.sampled_from(["gap", "conservative", "nope", "", {"kind": "threshold", "at_least": 0.1}, {}]),
        "rerank_depth": NUMBERS,
    },
)


def require_sound(hits: Sequence[Hit], asked: dict[str, Any]) -> None:
    assert len(hits) <= asked.get("k", 10)
    assert len({hit.record_id for hit in hits}) == len(hits)
    scores = [hit.score for hit in hits]
    assert all(score == score for score in scores)
    assert scores == sorted(scores, reverse=True)
    if surfaces := asked.get("surfaces"):
        assert {hit.surface_kind for hit in hits} <= set(surfaces)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(query=st.one_of(WORDS, WORDS, ANYTHING, st.lists(WORDS, max_size=3)), asked=ASKED)
def test_whatever_is_asked_there_are_sound_hits_or_one_line(aid: FindingAid, query: Any, asked: dict[str, Any]) -> None:
    hits, refused = None, ""
    try:
        hits = aid.search(query, **asked)
    except FindingAidError as error:
        refused = str(error)

    if hits is None:
        assert refused
        assert "\n" not in refused
    else:
        require_sound(hits, asked)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    command=st.sampled_from(["search", "show", "neighbours"]),
    words=st.lists(
        st.one_of(
            WORDS, ANYTHING,
            st.sampled_from(["ledger", "ledger.md", "--json", "--where", "--route", "-k", "--surfaces", "--reverse",
                             "--expand", "--select", "--level", "--file", "--corpus", "docs", "collapsed", "1", "--"]),
        ),
        max_size=5,
    ),
)  # fmt: skip
def test_no_command_line_ends_in_a_traceback(cli: Cli, command: str, words: list[str]) -> None:
    result = CliRunner().invoke(main, [command, "--config", str(cli.config), *words])

    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in {0, 1, 2}
    if result.exit_code:
        assert "Error: " in result.stderr
    if result.exit_code == 1:
        assert error_of(result)
