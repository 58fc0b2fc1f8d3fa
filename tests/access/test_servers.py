"""Servers answer each request for whoever its token names."""

from __future__ import annotations

import hashlib
import io
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import click
import httpx2
import pytest
from click.testing import CliRunner, Result
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from findingaid import FindingAid
from findingaid.access import Caller
from findingaid.cli import main
from findingaid.config.settings import ServeSettings
from findingaid.serve.jsonl import answer_requests
from findingaid.serve.session import Session
from tests.access.test_callers import SECRET, indexed
from tests.support.commands import subcommands
from tests.support.serving import _WITHOUT_TLS, OPEN, http_get, post, served

TOKENS = {"ann": ("user:ann", ["group:office"]), "bob": ("user:bob", [])}
CALLERS = [
    {"token_sha256": hashlib.sha256(token.encode()).hexdigest(), "user": user, "groups": groups}
    for token, (user, groups) in TOKENS.items()
]
EVERYTHING = {*OPEN, *SECRET}


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    return indexed(tmp_path_factory.mktemp("served"), {**OPEN, **SECRET})


def found(address: str, token: str) -> set[str]:
    answer = post(address, "search", {"query": "auth tokens", "k": 50}, authorization=f"Bearer {token}").json()
    return {hit["artifact_id"] for hit in answer["hits"]}


def test_each_token_is_answered_for_its_caller(aid: FindingAid, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "findingaid.serve"), served(Session.of(aid), callers=CALLERS) as address:
        for _ in range(2):
            assert found(address, "ann") == EVERYTHING
            assert found(address, "bob") == {*OPEN}
        status = post(address, "status", {}, authorization="Bearer ann").json()
        refused = [post(address, "status", {}, **headers).status_code for headers in NO_TOKENS]
        shown = post(address, "show", {"id": "vault.md"}, authorization="Bearer bob")
        artifacts = status["corpora"][0]["artifacts"]

    assert (status["caller"], artifacts) == ("user:ann group:office", len(EVERYTHING))
    assert refused == [401] * len(NO_TOKENS)
    assert shown.status_code == 404
    assert "'/v1/search' 200" in caplog.text
    assert "user:ann group:office" in caplog.text
    assert CALLERS[0]["token_sha256"] not in caplog.text


NO_TOKENS: list[dict[str, str]] = [
    {},
    {"authorization": "Bearer eve"},
    {"authorization": "Basic ann"},
    {"authorization": "ann"},
    {"authorization": f"Bearer {CALLERS[0]['token_sha256']}"},
]


def test_a_request_without_a_token_is_nobodys_where_an_empty_one_is_set(aid: FindingAid) -> None:
    with served(Session.of(aid), "", callers=CALLERS) as address:
        refused = [post(address, "status", {}, **headers).status_code for headers in ({}, {"authorization": "Bearer"})]
    assert refused == [401, 401]


def test_a_token_that_names_nobody_reads_what_is_public(aid: FindingAid) -> None:
    with served(Session.of(aid), "common", callers=CALLERS) as address:
        assert found(address, "common") == {*OPEN}
        assert found(address, "ann") == EVERYTHING


def test_without_a_token_a_server_on_this_machine_shows_what_is_public(aid: FindingAid) -> None:
    with served(Session.of(aid)) as address:
        hits = post(address, "search", {"query": "auth", "k": 50}).json()["hits"]
        page = http_get(f"{address}/v1/show", params={"id": "vault.md"})
    assert {hit["artifact_id"] for hit in hits} == {*OPEN}
    assert page.status_code == 404


def test_mcp_over_http_answers_each_request_for_its_token(aid: FindingAid) -> None:
    """Also of clients that ask at the same time."""

    async def ask(address: str, token: str) -> tuple[set[str], set[str], str]:
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(verify=_WITHOUT_TLS, timeout=60, headers=headers) as http:
            transport = streamable_http_client(f"{address}/mcp", http_client=http)
            async with Client(transport, cache=None) as client:
                for _ in range(3):
                    result = await client.call_tool("search", {"query": "auth tokens", "k": 50})
                    hits = {hit["artifact_id"] for hit in result.structured_content["hits"]}
                listed = {resource.name for resource in (await client.list_resources()).resources}
                shown = await client.call_tool("show", {"id": "vault.md"})
                return hits, listed - {"published"}, str(shown.structured_content)

    async def both(address: str) -> dict[str, Any]:
        answers: dict[str, Any] = {}

        async def one(token: str) -> None:
            answers[token] = await ask(address, token)

        async with anyio.create_task_group() as group:
            for token in TOKENS:
                group.start_soon(one, token)
        return answers

    with served(Session.of(aid), mcp=True, callers=CALLERS) as address:
        answers = anyio.run(both, address)

    assert answers["ann"][0] == EVERYTHING
    assert answers["ann"][1] >= EVERYTHING
    assert answers["bob"][0] == {*OPEN}
    assert not answers["bob"][1] & {*SECRET}
    assert "Zanzibar" in answers["ann"][2]
    assert "not_found" in answers["bob"][2]


@pytest.mark.parametrize(
    ("caller", "expected"), [(None, {*OPEN}), (Caller.of("user:ann", ["group:office"]), EVERYTHING)]
)
def test_a_program_is_answered_for_the_caller_of_its_session(
    aid: FindingAid, caller: Caller | None, expected: set[str]
) -> None:
    asked = io.BytesIO(b'{"id": 1, "method": "search", "params": {"query": "auth tokens", "k": 50}}\n')
    output = io.BytesIO()

    answer_requests(replace(Session.of(aid), caller=caller), ServeSettings(), asked, output)

    hits = json.loads(output.getvalue())["result"]["hits"]
    assert {hit["artifact_id"] for hit in hits} == expected


CONFIGURED = """
store: index
embedder: {kind: hash}
serve:
  callers: [{token_sha256: %s, user: "user:ann", groups: ["group:hr"]}]
corpora:
  docs:
    source: {kind: files, root: docs}
    access:
      - {match: "**", readers: [public]}
      - {match: "hr/", readers: ["group:hr"], deny: ["user:bob"]}
      - {match: "plans.md", field: readers, prefix: "user:"}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "hr").mkdir(parents=True)
    (docs / "open.md").write_text("# Open\n\nThe office opens at nine.\n")
    (docs / "hr" / "pay.md").write_text("# Pay\n\nThe pay of the office is a secret.\n")
    (docs / "plans.md").write_text("---\nreaders: [eve]\n---\n# Plans\n\nThe plans of the office.\n")
    (tmp_path / "findingaid.yaml").write_text(CONFIGURED % hashlib.sha256(b"x").hexdigest())
    return tmp_path


def test_the_command_line_reads_everything_or_as_somebody(folder: Path) -> None:
    config = str(folder / "findingaid.yaml")
    assert run("index", "--config", config).exit_code == 0

    def hits(*principals: str) -> set[str]:
        asked = run("search", "office", "--json", "--config", config, *(f"--as={each}" for each in principals))
        return {hit["artifact_id"] for hit in json.loads(asked.stdout)}

    assert hits() == {"open.md", "hr/pay.md", "plans.md"}
    assert hits("public") == {"open.md"}
    assert hits("user:eve") == {"open.md", "plans.md"}
    assert hits("group:hr") == {"open.md", "hr/pay.md"}
    assert hits("group:hr", "user:bob") == {"open.md"}


def test_no_command_has_two_options_of_one_name() -> None:
    """Else --as would be swallowed by another, and the command read everything."""

    def twice(command: click.Command) -> list[str]:
        if isinstance(command, click.Group):
            return [each for inner in subcommands(command).values() for each in twice(inner)]
        named = [name for option in command.params for name in (*option.opts, *option.secondary_opts)]
        return [f"{command.name} {name}" for name in {*named} if named.count(name) > 1]

    assert twice(main) == []


def test_a_pack_is_of_what_its_caller_may_read(folder: Path) -> None:
    config = ["--config", str(folder / "findingaid.yaml")]
    assert run("index", *config).exit_code == 0

    packs = [
        run("context", "office", "--budget", "300", "--form", "messages", *who, *config).stdout
        for who in ([], ["--as", "public"])
    ]

    assert ["is a secret" in pack for pack in packs] == [True, False]
    assert ["opens at nine" in pack for pack in packs] == [True, True]


def test_access_explain_says_which_rule_decides(folder: Path) -> None:
    config = ["--config", str(folder / "findingaid.yaml")]
    assert run("index", *config).exit_code == 0

    said = run("access", "explain", "hr/pay.md", "--as", "group:hr", *config)
    assert said.exit_code == 0
    assert said.stdout == (
        "docs/hr/pay.md: published for group:hr -user:bob\n"
        "  rule 2 (hr/): group:hr may read it\n"
        "  rule 2 (hr/): user:bob may not\n"
        "group:hr: may read it\n"
    )
    refused = run("access", "explain", "hr/pay.md", "--as", "user:bob", "--as", "group:hr", "--json", *config)
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["may_read"] is False
    run("access", "revoke", "group:hr", "hr/pay.md", *config)
    revoked = run("access", "explain", "hr/pay.md", "--as", "group:hr", *config)
    assert revoked.exit_code == 1
    assert revoked.stdout.startswith("docs/hr/pay.md: published for nobody\n")
    assert revoked.stdout.endswith(
        "  group:hr is revoked\n  it is revoked\ngroup:hr: may not read it (revoked: group:hr)\n"
    )
    of_field = run("access", "explain", "plans.md", *config)
    assert "published for user:eve\n  rule 3 (plans.md): those in its field 'readers' may read it" in of_field.stdout


TWICE = f'{{token_sha256: "{"0" * 64}", user: "user:ann"}}'


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("corpora.docs.access", '[{match: "a", readers: [ann]}]', "expected public, user:NAME or group:NAME"),
        ("corpora.docs.access", '[{match: "a"}]', "says nothing: name readers, a field or deny"),
        ("corpora.docs.access", '[{match: "!a", readers: [public]}]', "excludes"),
        ("corpora.docs.access", '[{match: "a", reader: [public]}]', "reader"),
        ("serve.callers", '[{token_sha256: "abc", user: "user:ann"}]', "token_sha256"),
        ("serve.callers", f'[{{token_sha256: "{hashlib.sha256(b"").hexdigest()}"}}]', "is the hash of nothing"),
        ("serve.callers", f"[{TWICE}, {TWICE}]", "have the same token_sha256"),
        ("serve.callers", f'[{{token_sha256: "{"0" * 64}", user: "group:ann"}}]', "is not of the form user:NAME"),
    ],
)
def test_access_that_cannot_be_meant_is_one_line(folder: Path, key: str, value: str, reason: str) -> None:
    said = run("config", "check", "--config", str(folder / "findingaid.yaml"), "--set", f"{key}={value}")

    assert said.exit_code == 1
    assert reason in said.stderr
    assert said.stderr.startswith("Error: ")
