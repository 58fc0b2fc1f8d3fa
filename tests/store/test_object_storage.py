"""Store on object storage: moto's S3 server on loopback, reached over HTTP like any other."""

from __future__ import annotations

import json
import socket
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import findingaid
from findingaid import FindingAid, UnreachableError
from findingaid.claims.decisions import DecisionLog, Verdict, broken
from findingaid.claims.model import Action
from findingaid.config.loading import load
from findingaid.indexing import plan
from findingaid.reports import NO_CALLS
from findingaid.store import Store, repair
from findingaid.store.objects import trouble, without_secrets
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import Cli, error_of, text_about
from tests.indexing.test_group_commit import aid_of, built_of, commit, prepared
from tests.indexing.test_incremental import docs, records
from tests.store.test_fields import come_through_together
from tests.support.buckets import KEY, SECRET, Bucket, refusing_keys
from tests.support.programs import COMMAND, Program, run_program

WORD = "xylophonequartz"


@pytest.fixture
def remote(cli: Cli, bucket: Bucket) -> Cli:
    """The command line with three documents, configured for the bucket."""
    cli.settings |= {"store": bucket.uri, "storage_options": bucket.options, "retain": 2}
    cli.settings["corpora"]["docs"]["synopsis"] = True
    for topic in ("ledger", "vector", "reader"):
        cli.write(f"{topic}.md", text_about(topic, f"{topic} again"))
    return cli


@pytest.fixture
def remote_aid(make_aid: Callable[..., FindingAid], bucket: Bucket) -> Callable[[], FindingAid]:
    """Builds the aid anew, as another process would; the bucket stays."""

    def make() -> FindingAid:
        aid = make_aid()
        return FindingAid(Store(bucket.uri, bucket.options), aid.embedder, aid.corpora, retain=2)

    return make


def test_everything_works_and_leaves_nothing_on_this_machine(remote: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(remote.folder)
    built = remote.json("index")["corpora"]["docs"]
    remote.write("ledger.md", text_about("ledger", "catalogue"))
    edited = remote.json("index")["corpora"]["docs"]

    assert (built["new"], built["failed"]) == (3, [])
    assert (edited["changed"], edited["unchanged"]) == (1, 2)
    assert remote.json("search", "catalogue", "--mode", "lexical")[0]["artifact_id"] == "ledger.md"
    assert remote.json("verify")["ok"]
    assert {path.name for path in remote.folder.iterdir()} == {"docs", "findingaid.yaml"}


@pytest.mark.slow
def test_a_run_over_unchanged_sources_writes_no_object(remote_aid: Callable[[], FindingAid], bucket: Bucket) -> None:
    remote_aid().index()
    before = bucket.contents()

    report = remote_aid().index()

    assert (docs(report).unchanged, docs(report).calls) == (3, NO_CALLS)
    assert bucket.contents() == before


@pytest.mark.slow
def test_a_new_process_needs_no_more_than_the_variables_of_aws(
    remote: Cli, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.run("index")
    del remote.settings["storage_options"]
    remote.run("status")  # writes the configuration
    variables = {
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    ours = {f"FINDINGAID__STORAGE_OPTIONS__{name.upper()}": value for name, value in bucket.options.items()}

    for environment in (variables, ours):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            done = run_program(COMMAND, "search", "ledger", "-k", "2", "--json", "--config", str(remote.config))

        assert done.returncode == 0, done.stderr
        assert [hit["artifact_id"] for hit in json.loads(done.stdout)] == ["ledger.md", "ledger.md"]


@pytest.mark.release
@pytest.mark.slow
def test_readers_go_back_and_forth(remote: Cli) -> None:
    remote.run("index")
    remote.write("ledger.md", text_about(WORD))
    remote.run("index")

    versions = remote.json("versions")
    served = remote.json("rollback")["served"]

    assert [v["served"] for v in versions] == [True, False]
    assert served == versions[1]["version"]
    assert remote.json("search", WORD, "--mode", "lexical") == []
    remote.json("publish")
    assert len(remote.json("search", WORD, "--mode", "lexical")) == 2


@pytest.mark.slow
def test_what_was_removed_is_in_no_object_after_a_purge(
    remote_aid: Callable[[], FindingAid], source: MemorySource, bucket: Bucket
) -> None:
    source.payloads["secret.md"] = text_about(WORD)
    remote_aid().index()
    cut_data(bucket, "surfaces")
    remote_aid().index()
    assert bucket.keys(".damaged-")
    assert bucket_has(bucket, WORD)
    del source.payloads["secret.md"]
    remote_aid().index()
    before = records(remote_aid())

    done = remote_aid().purge()

    assert (done.vectors, done.calls) == (2, 1)
    assert done.bytes > 0
    assert not bucket_has(bucket, WORD)
    assert bucket.keys(".damaged-") == []
    assert records(remote_aid()) == before
    assert remote_aid().verify() == []


def bucket_has(bucket: Bucket, word: str) -> bool:
    return any(word.encode() in content for content in bucket.contents().values())


def cut(bucket: Bucket, key: str) -> None:
    bucket.write(key, bucket.read(key)[:20])


def lose_all(bucket: Bucket, table: str) -> None:
    for key in bucket.keys(f"/{table}.lance/"):
        bucket.delete(key)


def lose_data(bucket: Bucket, table: str) -> None:
    for key in bucket.keys(f"/{table}.lance/data/"):
        bucket.delete(key)


def cut_data(bucket: Bucket, table: str) -> None:
    for key in bucket.keys(f"/{table}.lance/data/"):
        cut(bucket, key)


def cut_manifests(bucket: Bucket, table: str) -> None:
    for key in bucket.keys(f"/{table}.lance/_versions/"):
        cut(bucket, key)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "harm"),
    [("surfaces", lose_all), ("records", lose_data), ("ledger", cut_data), ("records", cut_manifests)],
)
def test_a_harmed_table_is_noticed_set_aside_and_healed(
    remote_aid: Callable[[], FindingAid], bucket: Bucket, table: str, harm: Callable[[Bucket, str], None]
) -> None:
    remote_aid().index()
    before = records(remote_aid())
    harm(bucket, table)
    harmed = bucket.contents(f"/{table}.lance/")

    noticed = remote_aid().verify()
    report = remote_aid().index()

    assert any(table in problem for problem in noticed)
    assert any(table in line for line in report.repaired)
    assert report.ok
    assert docs(report).calls == NO_CALLS
    assert records(remote_aid()) == before
    assert remote_aid().verify() == []
    aside = bucket.contents(f"/{table}.damaged-1/")
    assert {key.replace(".damaged-1", ".lance"): content for key, content in aside.items()} == harmed


AT_ONCE = """
import sys
from findingaid import Corpus, FindingAid
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.store.test_object_storage import texts
from findingaid.indexing import plan

plan.BATCH_ARTIFACTS = 5
name = sys.argv[1]
options = dict(pair.split("=", 1) for pair in sys.argv[3:])
strategy = with_synopsis(Chunked(chunk_size=200, overlap=0), ScriptedSynthesizer())
corpus = Corpus(name, MemorySource(texts(name)), strategy)
report = FindingAid(Store(sys.argv[2], options), CountingEmbedder(), {name: corpus}).index()
assert not report.corpora[name].failed, report
"""


def texts(corpus: str) -> dict[str, str]:
    return {f"{i:02d}.md": text_about(f"{corpus} {i}", f"more of {corpus} {i}") for i in range(20)}


@pytest.mark.slow
@pytest.mark.parametrize("names", [("same", "same")])
def test_two_processes_that_index_at_once_lose_nothing_and_double_nothing(
    bucket: Bucket, names: tuple[str, str]
) -> None:
    options = [f"{name}={value}" for name, value in bucket.options.items()]
    runs = [Program(AT_ONCE, name, bucket.uri, *options) for name in names]
    ended = [run.ended() for run in runs]

    store = Store(bucket.uri, bucket.options)
    aid = FindingAid(store, CountingEmbedder(), {})

    assert [each.returncode for each in ended] == [0, 0], ended
    assert aid.verify() == []
    found = store.published().to_table(columns=["corpus", "artifact_id", "text"]).to_pylist()
    for name in names:
        rows = [row for row in found if row["corpus"] == name]
        assert {row["artifact_id"] for row in rows} == texts(name).keys()
        assert len(rows) == 3 * 20


@pytest.mark.release
@pytest.mark.slow
def test_runs_that_bring_fields_at_once_lose_nothing(bucket: Bucket) -> None:
    come_through_together(lambda: Store(bucket.uri, bucket.options))


@pytest.mark.slow
def test_rows_that_were_written_before_a_field_was_widened_are_read_from_the_bucket(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "BATCH_ARTIFACTS", 4)
    local = aid_of(tmp_path / "index", 8)
    aid = FindingAid(Store(bucket.uri, bucket.options), local.embedder, local.corpora)

    indexer, batches = prepared(aid)
    commit(indexer, built_of(indexer, batches))

    years = aid.store.rows("records", ["artifact_id", "year"]).to_pylist()
    assert {row["year"] for row in years if row["artifact_id"] == "003.md"} == {"2003"}
    assert {row["year"] for row in years if row["artifact_id"] == "007.md"} == {"last"}


@pytest.mark.release
@pytest.mark.slow
def test_a_bucket_that_is_not_there_is_one_line(remote: Cli) -> None:
    remote.settings["store"] = "s3://no-such-bucket/index"

    for command in every_command():
        assert "the bucket does not exist: create it, or correct `store`" in one_line(remote, *command)


@pytest.mark.release
@pytest.mark.slow
def test_an_endpoint_that_refuses_is_one_line(remote: Cli) -> None:
    remote.run("index")
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))
        remote.settings["storage_options"] |= {"endpoint": f"http://127.0.0.1:{taken.getsockname()[1]}"}

        for command in every_command():
            assert "no answer from the endpoint" in one_line(remote, *command)


def test_plain_http_has_to_be_allowed(cli: Cli) -> None:
    options = {"endpoint": "http://127.0.0.1:9", "aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
    cli.settings |= {"store": "s3://team/index", "storage_options": options}

    assert "needs `allow_http: true`" in one_line(cli, "status")


@pytest.mark.release
@pytest.mark.slow
def test_a_wrong_key_is_one_line(remote: Cli, bucket: Bucket) -> None:
    with refusing_keys(bucket):
        for command in every_command():
            assert "check the key in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in one_line(remote, *command)


@pytest.mark.release
@pytest.mark.slow
def test_storage_that_refuses_is_never_taken_for_damage(
    remote_aid: Callable[[], FindingAid], bucket: Bucket, source: MemorySource
) -> None:
    remote_aid().index()
    before = bucket.contents()
    source.payloads["new.md"] = text_about("new")
    calls: list[Callable[[FindingAid], object]] = [
        FindingAid.index,
        FindingAid.plan,
        FindingAid.verify,
        FindingAid.status,
        FindingAid.versions,
        FindingAid.publish,
        FindingAid.rollback,
        FindingAid.purge,
        lambda aid: aid.search("ledger"),
    ]

    with refusing_keys(bucket):
        for call in calls:
            with pytest.raises(UnreachableError):
                call(remote_aid())

    assert bucket.contents() == before


@pytest.mark.parametrize(
    "said",
    [
        "LanceError(IO): Generic S3 error: Failed to resolve region for bucket 'quay'",
        "LanceError(IO): Generic GCS error: something that no version said before",
        "Invalid user input: Unable to find object store prefix: no Azure account name in URI",
    ],
)
def test_an_error_of_the_client_of_the_storage_is_never_taken_for_damage(said: str) -> None:
    assert trouble(ValueError(said), {})


@pytest.mark.parametrize(
    "said",
    [
        "LanceError(IO): Generic memory error: Invalid range 0..4796 for object of size 20 bytes",
        "LanceError(IO): Generic S3 error: Wanted range starting at 4796, but object was only 20 bytes long",
    ],
)
def test_an_object_that_is_cut_is_no_error_of_the_client(said: str) -> None:
    assert trouble(ValueError(said), {}) is None


@pytest.mark.slow
def test_a_short_option_does_not_hide_that_a_table_was_not_found() -> None:
    """Else a lost table is taken for a damaged one, and that of decisions stops the first run."""
    said = "Dataset at path a/records.lance was not found, by s3cr3t"

    assert without_secrets(said, {"skip_signature": "no", "key": "s3cr3t"}) == said.replace("s3cr3t", "…")


def test_what_is_refused_half_way_is_told_without_secrets(remote_aid: Callable[[], FindingAid], bucket: Bucket) -> None:
    remote_aid().index()
    store = remote_aid().store
    opened = store.published()

    with refusing_keys(bucket), pytest.raises(UnreachableError) as raised, store.storage_errors():
        opened.to_table()

    shown = "".join(traceback.format_exception(raised.value))
    assert not [value for value in (*bucket.options.values(), "127.0.0.1") if value != "true" and value in shown]


def test_no_option_is_shown_by_a_repr(remote: Cli) -> None:
    remote.run("status")
    config = load(remote.config)
    aid = findingaid.open(remote.config)

    assert config.storage_options == remote.settings["storage_options"]
    for shown in (config, config.settings, config.settings.model_dump(), aid, aid.store, vars(aid)):
        assert_nothing_shown(repr(shown), remote)


@pytest.mark.slow
def test_dagster_keeps_no_option(remote: Cli, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the events of a run that went well nor the trace of one that did not hold a value."""
    from tests.support.location import DAGSTER_YAML, files_of_dagster, open_location

    for location in open_location(remote, monkeypatch, DAGSTER_YAML):
        good = location.index()
        with refusing_keys(bucket):
            bad = location.index()

        assert good.success
        assert not bad.success
    written = [path.read_bytes() for path in files_of_dagster(remote.folder / "dagster_home")]
    assert any(b"check the key in AWS_ACCESS_KEY_ID" in content for content in written)
    for content in written:
        assert_nothing_shown(content.decode("utf-8", "replace"), remote)


def every_command() -> list[list[str]]:
    return [["index"], ["plan"], ["status"], ["verify"], ["search", "x"], ["show", "x"], ["versions"], ["purge"]]


def one_line(cli: Cli, *command: str) -> str:
    done = cli.run(*command)

    assert done.exit_code == 1, command
    assert error_of(done).startswith(f"store {cli.settings['store']}: ")
    assert_nothing_shown(done.output, cli)
    return done.stderr


def assert_nothing_shown(text: str, cli: Cli) -> None:
    """No value of the options is in a text, but for `true`."""
    for name, value in cli.settings["storage_options"].items():
        assert value == "true" or value not in text, name


def test_decisions_taken_at_once_do_not_fork_the_chain(bucket: Bucket) -> None:
    repair.prepare(Store(bucket.uri, bucket.options), 4)

    def decide(name: str) -> None:
        log = DecisionLog(Store(bucket.uri, bucket.options))
        for i in range(2):
            log.decide(lambda _, i=i: [Verdict(Action.ARCHIVE, "docs", f"{name}{i}", "a.md")], name)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(decide, ["ann", "bob"]))

    log = DecisionLog(Store(bucket.uri, bucket.options)).all()
    assert [decision.seq for decision in log] == [1, 2, 3, 4]
    assert len({decision.claim_id for decision in log}) == 4
    assert list(broken(log)) == []
