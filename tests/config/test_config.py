"""Configuration: every mistake gives one line that names the key and the choices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from findingaid import ConfigError
from findingaid.config.loading import load, parse_override
from findingaid.embedding.sentence import SentenceEmbedder
from findingaid.sources.files import Files
from findingaid.strategies.chunked import Chunked
from findingaid.synthesis.extractive import Extractive
from findingaid.testing import OpenAIServer
from tests.paths import ROOT

GOOD: dict[str, Any] = {
    "store": "index",
    "embedder": {"kind": "hash"},
    "corpora": {"docs": {"source": {"kind": "files", "root": "docs"}, "strategy": {"name": "Chunked"}}},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "findingaid.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    return path


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "stoer",
            "x",
            "stoer: unknown key. Known: store, storage_options, retain, embedder, synthesizer, lexical, budget,",
        ),
        ("embedder.kind", "hahs", "embedder.kind: unknown embedder 'hahs'. Known: hash, openai, sentence-transformers"),
        ("embedder.dimm", 3, "embedder.dimm: unknown key. Known: dim"),
        ("embedder.dim", "wide", "embedder.dim: expected a whole number, got 'wide'"),
        ("embedder.dim", 0, "embedder.dim: must be greater than 0, got 0"),
        (
            "synthesizer.kind",
            "llm",
            "synthesizer.kind: unknown synthesizer 'llm'. Known: anchored, custom, extractive, none, openai",
        ),
        (
            "corpora.docs.sourc",
            {},
            "corpora.docs.sourc: unknown key. Known: source, strategy, synopsis, edges, max_loss, max_failures,",
        ),
        ("corpora.docs.source", None, "corpora.docs.source: expected keys and values, got None"),
        (
            "corpora.docs.source.kind",
            "file",
            "corpora.docs.source.kind: unknown source 'file'. Known: files, loader, mcp",
        ),
        ("corpora.docs.source", {"kind": "files"}, "corpora.docs.source.root: missing, but required"),
        (
            "corpora.docs.strategy.name",
            "Chunk",
            "corpora.docs.strategy.name: unknown strategy 'Chunk'. Known: Chunked,",
        ),
        (
            "corpora.docs.strategy.size",
            3,
            "corpora.docs.strategy.size: unknown key. Known: max_tokens, chunk_size, overlap",
        ),
        ("corpora.docs.strategy.chunk_size", -1, "corpora.docs.strategy.chunk_size: must be greater than 0"),
        ("corpora.docs.strategy", {"name": "Chunked", "chunk_size": 9, "overlap": 9}, "overlap 9 must be smaller"),
        ("corpora.docs.strategy", {"name": "Chunked", "chunk_size": 9, "max_tokens": 9}, "exclude each other"),
        ("corpora.docs.source.root", "", "corpora.docs.source.root: expected a folder or a URL, got ''"),
        ("corpora.docs.source.max_bytes", -1, "corpora.docs.source.max_bytes: must be greater than 0, got -1"),
        ("embedder", {"kind": "openai", "model": "m", "api_key": 5}, "embedder.api_key: expected a text"),
        ("corpora.docs.source.include", "*.md", "corpora.docs.source.include: expected a list, got '*.md'"),
        ("corpora.docs.schedule", "daily", "corpora.docs.schedule.cron: a schedule is five fields of cron"),
        (
            "corpora.docs.backfill_schedule",
            "daily",
            "corpora.docs.backfill_schedule.cron: a schedule is five fields of",
        ),
        (
            "corpora.docs.schedule",
            {"cron": "0 3 * * *", "timezone": "Nowhere"},
            "corpora.docs.schedule.timezone: not a time zone, such as Europe/Vienna; got 'Nowhere'",
        ),
        ("corpora.docs.synopsis", "sometimes", "corpora.docs.synopsis: expected true, false or keys and values, got"),
        ("corpora.my docs", {"source": {"kind": "packages"}}, "a corpus name may contain only letters, digits and _"),
        ("corpora", {False: {}}, "corpora.False: expected a text, got False: YAML reads it so; put it in quotes"),
        ("corpora", {2024: {}}, "corpora.2024: expected a text, got 2024: YAML reads it so; put it in quotes"),
        ("store", 2024, "store: expected a text, got 2024: YAML reads it so; put it in quotes"),
        ("corpora", None, "corpora: expected keys and values, got None"),
        ("corpora.docs.partitions.size", 3, "partitions.size: unknown key. Known: by, buckets, limit"),
        (
            "corpora.docs.quality",
            {"cases": "c.yaml", "floor": 0.5, "flor": 1},
            "flor: unknown key. Known: cases, floor, metric",
        ),
        ("dagster.pool", "two words", "dagster.pool: String should match pattern '^\\S+$', got 'two words'"),
        ("prices", {"m": {"input": 1, "output": 2, "out": 3}}, "prices.m.out: unknown key. Known: input, output"),
        ("budget.monies", 1, "budget.monies: unknown key. Known: calls, tokens, money"),
        ("lexical", 3, "lexical: expected keys and values, got 3"),
        ("lexical.stem", "maybe", "lexical.stem: expected true or false, got 'maybe'"),
        ("executor.kind", "dask", "executor.kind: unknown kind 'dask'. Known: in_process, multiprocess, ray, or the"),
        ("executor", {"address": "local"}, "executor.kind: unknown kind None. Known: in_process"),
        ("storage_options", "hidden", "storage_options: expected names and values"),
        (
            "storage_options",
            {"region": ["hidden"]},
            "storage_options: region must be a text, a number or true or false",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(file: Path, key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(file, {key: value})

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(file) in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_the_parameters_of_a_default_component_need_no_kind(file: Path) -> None:
    file.write_text(yaml.safe_dump({key: value for key, value in GOOD.items() if key != "embedder"}))

    config = load(file, {"embedder.precision": "int8", "synthesizer.sentences": 2})

    assert config.embedder == SentenceEmbedder(precision="int8")
    assert config.synthesizer == Extractive(sentences=2)


def test_a_key_within_a_single_value_says_how_to_set_it(file: Path) -> None:
    file.write_text(yaml.safe_dump(GOOD | {"corpora": {"docs": GOOD["corpora"]["docs"] | {"synopsis": True}}}))

    with pytest.raises(
        ConfigError, match=r"not a group of keys: set corpora\.docs\.synopsis to {context: \.\.\.} instead"
    ):
        load(file, {"corpora.docs.synopsis.context": "chunk"})


def test_the_file_that_ships_is_valid() -> None:
    config = load(ROOT / "findingaid.yaml")

    assert list(config.corpora) == ["docs", "environment"]


def test_paths_are_relative_to_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")

    config = load(file)

    source = config.corpora["docs"].source
    assert isinstance(source, Files)
    assert source.root == file.parent / "docs"
    assert config.store == str(file.parent / "index")


def test_a_store_may_be_a_uri(file: Path) -> None:
    assert load(file, {"store": "s3://bucket/index"}).store == "s3://bucket/index"


def test_a_home_folder_that_nobody_knows_is_one_line(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"store: ~nobody-here/index: .* Write the whole path"):
        _ = load(file, {"store": "~nobody-here/index"}).store


def test_the_environment_overrides_the_file_and_an_override_both(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINDINGAID__EMBEDDER__DIM", "16")
    monkeypatch.setenv("FINDINGAID__CORPORA__DOCS__MAX_LOSS", "0.25")

    assert load(file).embedder.dim == 16
    assert load(file).corpora["docs"].max_loss == 0.25
    assert load(file, {"embedder.dim": 8}).embedder.dim == 8


def test_a_variable_with_one_underscore_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FINDINGAID_STORE", "elsewhere")
    monkeypatch.setenv("FINDINGAID_TOKEN", "t")

    load(file)
    monkeypatch.setenv("FINDINGAID__STORE", "here")
    load(file)

    assert caplog.messages == ["$FINDINGAID_STORE sets nothing: the variable of this setting is $FINDINGAID__STORE"]


def test_a_store_may_be_a_file_uri(file: Path, tmp_path: Path) -> None:
    assert load(file, {"store": f"file://{tmp_path}/index"}).store == str(tmp_path / "index")


def test_storage_options_are_texts_and_an_empty_one_is_none(file: Path) -> None:
    options = {"allow_http": True, "client_max_retries": 3, "endpoint": "", "region": None}

    assert load(file, {"storage_options": options}).storage_options == {"allow_http": "true", "client_max_retries": "3"}


@pytest.mark.parametrize("password", ["007", "on", "1e3", "a: b", "*x", "[", "#", "'"])
def test_a_secret_from_outside_is_taken_as_it_is(file: Path, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setenv("FINDINGAID__STORAGE_OPTIONS__AWS_SECRET_ACCESS_KEY", password)
    key, value = parse_override(f"storage_options.other={password}")

    assert load(file, {key: value}).storage_options == {"aws_secret_access_key": password, "other": password}


@pytest.mark.parametrize(
    ("name", "value"),
    [("FINDINGAID__STORAGE_OPTIONS", "[hidden"), ("FINDINGAID__STORAGE_OPTIONS__A__B", "hidden")],
)
def test_a_mistake_in_a_secret_does_not_show_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("FINDINGAID__STORAGE_OPTIONS__A", "hidden")
    monkeypatch.setenv(name, value)

    with pytest.raises(ConfigError) as raised:
        load(file)

    assert "storage_options" in str(raised.value).lower()
    assert "hidden" not in str(raised.value)


def test_the_file_can_be_named_by_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINDINGAID_CONFIG", str(file))

    assert load().base == file.parent


def test_parameters_may_stand_under_params(file: Path) -> None:
    config = load(file, {"corpora.docs.strategy": {"name": "Chunked", "params": {"chunk_size": 300}}})

    assert config.corpora["docs"].strategy == Chunked(chunk_size=300)


def test_chunks_are_by_default_what_the_embedder_sees(file: Path) -> None:
    strategy = load(file, {"embedder": {"kind": "sentence-transformers"}}).corpora["docs"].strategy

    assert isinstance(strategy, Chunked)
    assert strategy.max_tokens == 254


def test_more_tokens_than_the_embedder_sees_is_a_mistake(file: Path) -> None:
    with pytest.raises(ConfigError, match="max_tokens: 300, but the embedder sees 254"):
        load(file, {"embedder": {"kind": "sentence-transformers"}, "corpora.docs.strategy.max_tokens": 300})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("corpora: [", "line 1: not YAML"),
        ("just text", "expected keys and values"),
        ("", "expected keys and values"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "findingaid.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)

    with pytest.raises(ConfigError) as raised:
        load(path)

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--config or \$FINDINGAID_CONFIG"):
        load(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("text", ["novalue", "=x"])
def test_an_override_without_a_key_is_a_mistake(text: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        parse_override(text)


def test_an_override_is_yaml() -> None:
    assert parse_override("a.b=[1, two]") == ("a.b", [1, "two"])


ONE_CORPUS = "corpora:\n  docs:\n    source: {kind: files, root: docs}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{ONE_CORPUS}  docs:\n    source: {{kind: files, root: other}}\n",
         "findingaid.yaml line 4: not YAML: 'docs' is a duplicate key, first at line 2: remove one"),
        (f"retain: 1\n{ONE_CORPUS}retain: 2\n", "line 5: not YAML: 'retain' is a duplicate key, first at line 1"),
        (f"embedder: {{kind: hash, dim: 3, dim: 4}}\n{ONE_CORPUS}", "line 1: not YAML: 'dim' is a duplicate key"),
        ("{a: " * 3_000, "findingaid.yaml: not YAML: nested too deep"),
        (f"embedder: &a {{kind: hash, x: *a}}\n{ONE_CORPUS}", "nested too deeply, or contains itself"),
        (f"embedder: {{kind: hash, dim: 2024-13-45}}\n{ONE_CORPUS}", "not YAML: month must be in 1..12"),
        (f'store: "a\\0b"\n{ONE_CORPUS}', "store: contains a null character (\\0): remove it"),
        (ONE_CORPUS.replace("root: docs", 'root: "d\\0"'), "corpora.docs.source.root: contains a null character"),
        (f"embedder: {{kind: hash, dim: 16385}}\n{ONE_CORPUS}",
         "embedder.dim: must be less than or equal to 16384, got 16385"),
    ],
    ids=["corpus", "key", "within", "deep", "itself", "date", "nul", "nul in a root", "dim"],
)  # fmt: skip
def test_yaml_that_says_too_much_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "findingaid.yaml").write_text(text)

    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "findingaid.yaml")

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("part", "variable"),
    [
        ("store: $HOME/index", "store: $HOME is not expanded"),
        (
            "store: index\nembedder: {kind: openai, model: m, api_key: $OPENAI_API_KEY}",
            "api_key: $OPENAI_API_KEY is not",
        ),
        ("store: a/${USER}/b", "store: ${USER} is not expanded"),
        ("store: '%USERPROFILE%'", "store: %USERPROFILE% is not expanded"),
        ('store: s\nstorage_options: {endpoint: "Bearer ${TOKEN:-none}"}', "${TOKEN:-none} is not expanded"),
    ],
)
def test_a_variable_of_the_shell_is_refused_and_the_right_form_named(tmp_path: Path, part: str, variable: str) -> None:
    (tmp_path / "findingaid.yaml").write_text(f"{part}\n{ONE_CORPUS}")

    with pytest.raises(ConfigError, match=re.escape(variable)) as raised:
        load(tmp_path / "findingaid.yaml")

    assert "set the variable FINDINGAID__" in str(raised.value)


def test_a_pattern_may_have_dollar_signs(tmp_path: Path) -> None:
    source = "{kind: files, root: docs, exclude: [$RECYCLE.BIN/, $OUT]}"
    (tmp_path / "findingaid.yaml").write_text(f"embedder: {{kind: hash}}\ncorpora: {{docs: {{source: {source}}}}}\n")

    assert load(tmp_path / "findingaid.yaml").corpora["docs"].source.exclude == ("$RECYCLE.BIN/", "$OUT")  # type: ignore[attr-defined]


def test_a_key_that_yaml_merges_in_may_be_said_again(tmp_path: Path) -> None:
    part = "{source: &s {kind: files, root: docs}}"
    (tmp_path / "findingaid.yaml").write_text(
        f"embedder: {{kind: hash}}\ncorpora:\n  docs: {part}\n  more:\n    source: {{<<: *s, root: other}}\n"
    )

    assert set(load(tmp_path / "findingaid.yaml").corpora) == {"docs", "more"}


def test_an_override_with_a_key_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not YAML: 'kind' is a duplicate key"):
        parse_override("embedder={kind: hash, kind: other}")


def test_a_configuration_is_opened_without_a_request(tmp_path: Path, server: OpenAIServer) -> None:
    file = tmp_path / "findingaid.yaml"
    embedder = {"kind": "openai", "model": "m", "base_url": server.base_url}
    file.write_text(yaml.safe_dump({**GOOD, "embedder": embedder}))

    load(file)

    assert not server.requests
