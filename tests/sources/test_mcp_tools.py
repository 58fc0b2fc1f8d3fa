"""Source `mcp`: tools of real servers, and of servers that hang, die, misreport or flood their output."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from findingaid.errors import ConfigError, ReadError, SourceError
from findingaid.sources import SOURCES
from findingaid.sources.json_schema import MAX_PARAMETERS, parameter_lines
from findingaid.sources.mcp_tools import Tools
from tests.conftest import Cli
from tests.paths import TESTS
from tests.support.web import on_loopback

SERVERS = TESTS / "servers"
WORKSHOP = str(SERVERS / "workshop.py")
KEY = "key-of-the-workshop"


def tool(name: str, description: str = "Does it.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


def scripted(folder: Path, *tools: dict[str, Any], trouble: str = "", **more: Any) -> dict[str, Any]:
    """A server's entry in a configuration; its tools lie in a file of their own."""
    file = folder / f"{len(list(folder.glob('*.tools')))}.tools"
    file.write_text(json.dumps(tools))
    return {"command": sys.executable, "args": [str(SERVERS / "scripted.py"), str(file), trouble], **more}


def source(servers: dict[str, Any], **more: Any) -> Tools:
    made = SOURCES.create({"kind": "mcp", "servers": servers, **more}, "source")
    assert isinstance(made, Tools)
    return made


def listed(tools: Tools) -> list[str]:
    return [listing.artifact_id for listing in tools.discover().listings]


def failed(tools: Tools) -> dict[str, tuple[str, str]]:
    return {failure.artifact_id: (failure.kind, failure.message) for failure in tools.discover().failures}


def gone(pid: int) -> bool:
    """Return whether a process ends within some seconds; a zombie counts as ended."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The address of the workshop over HTTP."""
    with subprocess.Popen([sys.executable, WORKSHOP, "http"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp"
        server.terminate()


def test_a_tool_is_what_it_is_called_what_it_is_for_and_what_it_takes() -> None:
    tools = source({"workshop": {"command": sys.executable, "args": [WORKSHOP]}})

    assert listed(tools) == ["workshop/list_files", "workshop/resize_image"]
    artifact = tools.read("workshop/resize_image")
    assert artifact.raw == {
        "server": "workshop",
        "name": "resize_image",
        "description": "Make a picture smaller or larger.",
        "parameters": (
            "- path (string, required): Where the picture is\n"
            "- size (object, required)\n"
            "- size.width (integer, required): in pixels\n"
            "- size.height (integer or null)\n"
            "- fit (string): one of inside, outside; default inside"
        ),
        "text": "resize image: Make a picture smaller or larger.",
        "reference": "resize image: Make a picture smaller or larger.\n\nParameters:\n" + artifact.raw["parameters"],
    }
    assert artifact.metadata == {
        "title": "Scale a picture",
        "server": "workshop",
        "n_parameters": 5,
        "read_only": False,
        "destructive": True,
        "idempotent": None,
        "open_world": None,
    }
    assert tools.read("workshop/list_files").metadata["title"] == "list_files"


def test_a_server_is_asked_over_http_with_its_headers(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKSHOP_KEY", KEY)
    with_key = {"url": web, "headers": {"Authorization": "Bearer ${WORKSHOP_KEY}"}}

    tools = source(
        {"open": with_key, "closed": {"url": web, "type": "http"}, "nobody": {"url": "http://127.0.0.1:9/mcp"}}
    )

    assert listed(tools) == ["open/list_files", "open/resize_image"]
    assert failed(tools) == {
        "closed/": ("refused", "answered HTTP 401 Unauthorized"),
        "nobody/": ("transport", "cannot be reached: ConnectError: All connection attempts failed"),
    }


class Odd(BaseHTTPRequestHandler):
    """HTTP servers that are not MCP servers."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, kind, body = {
            "/page": (200, "text/html", "<h1>Log in</h1>"),
            "/json": (200, "application/json", '{"error": "secret"}'),
            "/moved": (302, "text/plain", ""),
        }.get(self.path, (404, "text/plain", "not here"))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Location", "http://elsewhere.example.org/mcp")
        self.end_headers()
        self.wfile.write(body.encode())


def test_an_address_where_no_mcp_server_is_fails_by_what_is_there() -> None:
    with on_loopback(Odd) as here:
        servers = {name: {"url": f"{here}/{name}"} for name in ("page", "json", "moved", "nothing")}

        with pytest.raises(SourceError) as caught:
            source(servers).discover()

    said = str(caught.value)
    assert "page: answered with the error: Unexpected content type: text/html" in said
    assert "json: answered with the error: Failed to parse JSON response" in said
    assert "moved: answered with the error: Redirect to http://elsewhere.example.org/mcp not followed" in said
    assert "nothing: answered HTTP 404 Not Found" in said

    assert "secret" not in said


def test_all_pages_are_read_and_a_circle_of_them_ends(tmp_path: Path) -> None:
    five = [tool(f"tool-{number}") for number in range(5)]
    tools = source(
        {"long": scripted(tmp_path, *five, trouble="pages"), "round": scripted(tmp_path, *five, trouble="circle")}
    )

    assert listed(tools) == [f"long/tool-{number}" for number in range(5)]
    assert failed(tools) == {"round/": ("other", "its pages of tools repeat")}


def test_a_server_without_tools_has_none(tmp_path: Path) -> None:
    assert listed(source({"empty": scripted(tmp_path, trouble="toolless")})) == []


def test_tools_of_one_name_are_told_apart_by_their_servers(tmp_path: Path) -> None:
    tools = source({"b": scripted(tmp_path, tool("search", "In b.")), "a": scripted(tmp_path, tool("search", "In a."))})

    assert listed(tools) == ["a/search", "b/search"]
    assert [tools.read(i).raw["description"] for i in ("a/search", "b/search")] == ["In a.", "In b."]  # type: ignore[index]


def test_each_way_to_fail_is_named_the_other_servers_are_listed_and_none_is_left_running(
    tmp_path: Path, pids: Path
) -> None:
    env = {"PIDS": str(pids)}
    troubles = ("dies", "garbage", "half", "hangs", "refuses", "waits")
    tools = source(
        {
            "fine": scripted(tmp_path, tool("saw"), env=env),
            "absent": {"command": "no-such-program"},
            "unset": {"command": "x", "env": {"KEY": "${NO_SUCH_VARIABLE}"}},
            **{trouble: scripted(tmp_path, trouble=trouble, env=env) for trouble in troubles},
        },
        timeout=2,
    )

    found = tools.discover()

    started = pids.read_text().split()
    assert len(started) == 7
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    assert [listing.artifact_id for listing in found.listings] == ["fine/saw"]
    assert sorted(found.unknown) == ["absent/", "dies/", "garbage/", "half/", "hangs/", "refuses/", "unset/", "waits/"]
    assert {f.artifact_id: (f.kind, f.message) for f in found.failures} == {
        "absent/": ("transport", "cannot be started: No such file or directory: no-such-program"),
        "dies/": ("transport", "ended before it answered; its last output: cannot log in with None"),
        "garbage/": ("parse", "answered with something else than a list of tools: tools: Input should be a valid list"),
        "half/": (
            "timeout",
            "has not answered within source.timeout = 2 seconds, and sent a message that cannot be parsed: "
            "Invalid JSON: unexpected end of hex escape at line 1 column 89",
        ),
        "hangs/": ("timeout", "has not answered within source.timeout = 2 seconds"),
        "refuses/": ("refused", "answered with the error: the key None is revoked"),
        "unset/": ("other", "$NO_SUCH_VARIABLE is not set in the environment"),
        "waits/": ("timeout", "has not answered within source.timeout = 2 seconds"),
    }


def test_where_no_server_answers_nothing_is_known() -> None:
    tools = source({"a": {"command": "no-such-program"}, "b": {"command": "no-such-program"}})

    with pytest.raises(SourceError, match=r"no server lists its tools: a: cannot be started.*; b: cannot be started"):
        tools.discover()


def test_tools_of_a_server_that_is_down_stay_indexed_until_it_is_back(cli: Cli) -> None:
    servers = {name: scripted(cli.folder, tool(f"{name}_wood", f"Does {name} wood.")) for name in ("saw", "glue")}
    cli.settings["corpora"] = {
        "tools": {"source": {"kind": "mcp", "servers": servers}, "strategy": {"name": "WholeText"}}
    }
    assert cli.run("index").exit_code == 0
    command = servers["glue"].pop("command")
    servers["glue"]["command"] = "no-such-program"

    down = cli.run("index")
    found = [hit["artifact_id"] for hit in cli.json("search", "wood", "--mode", "lexical")]
    servers["glue"]["command"] = command

    assert down.exit_code == 1
    assert "Error: tools: glue/: cannot be started: No such file or directory: no-such-program" in down.stderr
    assert sorted(found) == ["glue/glue_wood", "saw/saw_wood"]
    back = cli.json("index")["corpora"]["tools"]
    assert (back["unchanged"], back["failed"], back["calls"]["embed"]) == (2, [], 0)


def test_a_changed_tool_has_another_stamp_and_its_neighbours_have_not(tmp_path: Path) -> None:
    spec = scripted(tmp_path, tool("plane"), tool("saw"))
    before = {x.artifact_id: x.stamp for x in source({"a": spec}).discover().listings}
    Path(spec["args"][1]).write_text(json.dumps([tool("saw", annotations={"readOnlyHint": True}), tool("plane")]))

    after = {x.artifact_id: x.stamp for x in source({"a": spec}).discover().listings}

    assert after["a/plane"] == before["a/plane"]
    assert after["a/saw"] != before["a/saw"]


def test_reading_in_another_process_asks_that_server_once(tmp_path: Path, pids: Path) -> None:
    servers = {name: scripted(tmp_path, tool("x"), tool("y"), env={"PIDS": str(pids)}) for name in ("a", "b")}
    servers["down"] = scripted(tmp_path, trouble="dies", env={"PIDS": str(pids)})
    tools = source(servers)

    assert [tools.read(i).artifact_id for i in ("a/x", "a/y")] == ["a/x", "a/y"]
    for _ in range(2):
        with pytest.raises(ReadError, match="down: ended before it answered"):
            tools.read("down/x")
    with pytest.raises(ReadError, match="no longer has this tool"):
        tools.read("a/z")
    with pytest.raises(ReadError, match="no longer has this tool"):
        tools.read("nowhere/z")
    assert len(pids.read_text().split()) == 2


def test_it_works_within_a_running_loop(tmp_path: Path) -> None:
    tools = source({"a": scripted(tmp_path, tool("saw"))})

    async def notebook() -> list[str]:
        return listed(tools)

    assert asyncio.run(notebook()) == ["a/saw"]


@pytest.mark.parametrize(
    "sent", [signal.SIGKILL, *(pytest.param(sent, marks=pytest.mark.slow) for sent in (signal.SIGINT, signal.SIGTERM))]
)
def test_servers_end_with_a_run_that_is_killed(tmp_path: Path, pids: Path, sent: signal.Signals) -> None:
    spec = scripted(tmp_path, trouble="waits", env={"PIDS": str(pids)})
    code = f"""
from findingaid.sources.mcp_servers import Server
from findingaid.sources.mcp_tools import Tools
Tools({{"a": Server.model_validate({spec!r})}}).discover()
"""
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as run:
        while not (pids.exists() and pids.read_text().endswith("\n")):
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(sent)

    assert gone(int(pids.read_text()))


def test_what_a_server_prints_and_logs_stays_with_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    found = source({t: scripted(tmp_path, tool("saw"), trouble=t) for t in ("noisy", "garbage")}).discover()

    assert [listing.artifact_id for listing in found.listings] == ["noisy/saw"]
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.name.startswith(("mcp", "httpx"))]


def test_keys_are_seen_nowhere(
    cli: Cli, web: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FROM_OUTSIDE", "secret-from-outside")
    env = {"KEY": "inner-secret"}
    servers = {
        "fine": scripted(cli.folder, tool("saw"), env=env),
        "dies": scripted(cli.folder, trouble="dies", env=env),
        "refuses": scripted(cli.folder, trouble="refuses", env=env),
        "bare": {"command": sys.executable, "args": ["-c", "raise SystemExit('x' * 190 + '${FROM_OUTSIDE}')"]},
        "long": {"command": sys.executable, "args": ["-c", "raise SystemExit('${FROM_OUTSIDE}' * 1000)"]},
        "web": {"url": f"{web}?key=query%2Dsecret", "headers": {"Authorization": "Bearer header-secret"}},
        "nowhere": {"url": "http://user:password-secret@127.0.0.1:9/?key=query-secret"},
    }
    cli.settings["corpora"] = {"tools": {"source": {"kind": "mcp", "servers": servers}, "max_failures": 1}}

    shown = [cli.run("index"), cli.run("status"), cli.run("search", "saw", "--json"), cli.run("show", "fine/saw")]

    everything = "\n".join([*(r.output for r in shown), *(r.getMessage() for r in caplog.records)])
    assert "dies/: ended before it answered; its last output: cannot log in with ***" in everything
    assert "refuses/: answered with the error: the key *** is revoked" in everything
    assert "web/: answered HTTP 401" in everything
    assert "secret" not in everything
    assert "secret" not in repr(source(servers))
    tables = b"".join(path.read_bytes() for path in (cli.folder / "index").rglob("*") if path.is_file())
    assert b"saw" in tables
    assert b"secret" not in tables


@pytest.mark.parametrize(
    "wrong",
    [
        {"servers": ["secret"]},
        {"servers": {"a": "npx --key secret"}},
        {"servers": {"a": {"command": ["x", "secret"]}}},
        {"servers": {"a": {"command": "x", "args": "secret"}}},
        {"servers": {"a": {"command": "x", "args": [["secret"]]}}},
        {"servers": {"a": {"command": "x", "env": "KEY=secret"}}},
        {"servers": {"a": {"command": "x", "env": {"KEY": ["secret"]}}}},
        {"servers": {"a": {"command": "x", "url": "http://secret"}}},
        {"servers": {"a": {"env": {"KEY": "secret"}}}},
        {"servers": {"a": {"command": "x", "environment": {"KEY": "secret"}}}},
        {"servers": {"a": {"url": "http://x", "type": "sse", "headers": {"KEY": "secret"}}}},
        {"servers": {"a/b": {"command": "x", "env": {"KEY": "secret"}}}},
        {"servers": {}},
        {},
    ],
)
def test_a_mistake_in_the_configuration_is_named_without_what_may_be_secret(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^corpora\.t\.source\.servers") as caught:
        SOURCES.create({"kind": "mcp", **wrong}, "corpora.t.source")

    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "outside", "filled"),
    [
        ("${KEY}", "k", "k"),
        ("Bearer ${KEY}/${KEY}", "k", "Bearer k/k"),
        ("${KEY:-default}", None, "default"),
        ("${KEY:-default}", "", "default"),
        ("${KEY:-}", None, ""),
        ("${KEY}", "", ""),
        ("$KEY {KEY}", "k", "$KEY {KEY}"),
    ],
)
def test_variables_stand_for_what_the_environment_has_or_for_a_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, outside: str | None, filled: str
) -> None:
    if outside is not None:
        monkeypatch.setenv("KEY", outside)
    named = {"a": {"command": "sh", "args": ["-c", 'printf %s "$GIVEN" > given'], "env": {"GIVEN": value}}}

    made = SOURCES.create({"kind": "mcp", "servers": named}, "source", tmp_path)

    with pytest.raises(SourceError, match="ended before it answered"):
        made.discover()
    assert (tmp_path / "given").read_text() == filled


def test_numbers_in_env_are_texts() -> None:
    server = (source({"a": {"command": "x", "env": {"PORT": 80, "DEBUG": True}}}).servers or {})["a"]

    assert {name: value.get_secret_value() for name, value in server.env.items()} == {"PORT": "80", "DEBUG": "true"}


def test_the_file_of_another_program_is_read_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(tmp_path, tool("saw"))
    command = {"command": "${PYTHON}", "args": [str(SERVERS / "scripted.py"), "${TOOLS:-0.tools}"]}
    file = {
        "projects": {},
        "mcpServers": {
            "here": {**command, "type": "stdio", "alwaysAllow": ["saw"]},
            "off": {"command": "x", "disabled": True},
            "old": {"type": "sse", "url": "http://127.0.0.1:9"},
        },
    }
    (tmp_path / ".mcp.json").write_text(json.dumps(file))
    monkeypatch.setenv("PYTHON", sys.executable)

    made = SOURCES.create({"kind": "mcp", "config": ".mcp.json"}, "source", tmp_path)

    assert isinstance(made, Tools)
    assert listed(made) == ["here/saw"]
    assert failed(made) == {
        "old/": ("parse", f"{tmp_path}/.mcp.json: old: type 'sse' is not supported. Known: http, streamable-http")
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "No such file"),
        ('{"a": 1,\n', ":2: not JSON"),
        ("[]", "'mcpServers'"),
        ('{"servers": {}}', "'mcpServers'"),
    ],
)
def test_a_file_that_names_no_servers_is_named(tmp_path: Path, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / ".mcp.json").write_text(text)

    with pytest.raises(SourceError, match=rf"source.config: .*\.mcp\.json.*{problem}"):
        Tools(config=tmp_path / ".mcp.json").discover()
    with pytest.raises(ReadError, match=problem):
        Tools(config=tmp_path / ".mcp.json").read("a/b")


def test_a_relative_command_is_below_the_configuration(cli: Cli) -> None:
    (cli.folder / "serve").write_text(f"#!/bin/sh\nexec {sys.executable} {SERVERS}/scripted.py 0.tools\n")
    (cli.folder / "serve").chmod(0o755)
    scripted(cli.folder, tool("saw"))
    cli.settings["corpora"] = {"tools": {"source": {"kind": "mcp", "servers": {"a": {"command": "./serve"}}}}}

    assert cli.run("index").exit_code == 0


def test_a_tool_shows_no_sign_that_a_terminal_obeys_or_a_reader_cannot_see(tmp_path: Path) -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    described = f"Saws.\x1b[2J\x07\u202edrow{hidden}\n\tNext line."
    schema = {"type": "object", "properties": {"wood\x1b[1m": {"type": "string", "description": "any\u200b\n- fake"}}}

    tools = source({"a": scripted(tmp_path, tool("saw", described, title="\x1b]0;x\x07Saw", inputSchema=schema))})

    raw = tools.read("a/saw").raw
    assert isinstance(raw, dict)
    assert raw["description"] == "Saws.[2Jdrow\n\tNext line."
    assert raw["parameters"] == "- wood[1m (string): any - fake"
    assert tools.read("a/saw").metadata["title"] == "]0;xSaw"


def test_a_tool_without_a_proper_name_and_a_second_one_of_a_name_fail_alone(tmp_path: Path) -> None:
    names = ["saw", "", "two\nlines", "\x1b[2J", "saw", "ünd/so weiter"]

    tools = source({"a": scripted(tmp_path, *map(tool, names))})

    assert listed(tools) == ["a/saw", "a/ünd/so weiter"]
    assert tools.read("a/ünd/so weiter").raw["text"] == "ünd so weiter: Does it."  # type: ignore[index]
    assert failed(tools) == {
        "a/: tool 2": ("missing", "its name '' is not valid"),
        "a/: tool 3": ("missing", "its name 'two\\nlines' is not valid"),
        "a/: tool 4": ("missing", "its name '\\x1b[2J' is not valid"),
        "a/: tool 5": ("duplicate", "duplicate tool 'saw': keeping the first"),
    }


def test_a_tool_that_is_not_valid_fails_alone_under_its_name(tmp_path: Path) -> None:
    wrong: list[Any] = [{"name": "bare"}, {"inputSchema": {}}, {**tool("listed"), "inputSchema": []}, "text", None]

    tools = source({"a": scripted(tmp_path, tool("saw"), *wrong, tool("glue"))})

    assert listed(tools) == ["a/glue", "a/saw"]
    assert failed(tools) == {
        "a/bare": ("parse", "not a tool: inputSchema: Field required"),
        "a/: tool 3": ("missing", "its name '' is not valid"),
        "a/listed": ("parse", "not a tool: inputSchema: Input should be a valid dictionary"),
        "a/: tool 5": ("missing", "its name '' is not valid"),
        "a/: tool 6": ("missing", "its name '' is not valid"),
    }


def test_a_tool_that_the_sdk_leaves_out_is_listed(tmp_path: Path) -> None:
    headed = {"type": "object", "properties": {"wood": {"type": "string", "x-mcp-header": "not a token"}}}

    tools = source({"a": scripted(tmp_path, tool("saw", inputSchema=headed), tool("glue"), trouble="modern")})

    assert listed(tools) == ["a/glue", "a/saw"]


def test_a_tool_that_is_no_longer_valid_keeps_its_records(cli: Cli) -> None:
    server = scripted(cli.folder, tool("saw", "Cuts wood."), tool("glue", "Joins wood."))
    cli.settings["corpora"] = {"tools": {"source": {"kind": "mcp", "servers": {"a": server}}}}
    assert cli.run("index").exit_code == 0
    Path(server["args"][1]).write_text(json.dumps([{"name": "saw"}, tool("glue", "Joins wood.")]))

    broken = cli.run("index")
    found = [hit["artifact_id"] for hit in cli.json("search", "wood", "--mode", "lexical")]

    assert "a/saw: not a tool: inputSchema: Field required" in broken.stderr
    assert sorted(found) == ["a/glue", "a/saw"]


def test_a_description_over_the_limit_fails_alone_and_names_the_setting(tmp_path: Path) -> None:
    tools = source({"a": scripted(tmp_path, tool("long", "x" * 3_000_000), tool("short"))})

    assert listed(tools) == ["a/long", "a/short"]
    assert tools.read("a/short")
    with pytest.raises(ReadError, match=r"more than source\.max_bytes = 1,000,000"):
        tools.read("a/long")


@pytest.mark.parametrize(
    ("schema", "lines"),
    [
        ({"properties": {"a": {"type": ["string", "null"]}}}, ["a (string or null)"]),
        ({"properties": {"a": {"$ref": "#/definitions/B"}}, "definitions": {"B": {"type": "number"}}}, ["a (number)"]),
        ({"properties": {"a": {"$ref": "http://elsewhere"}}}, ["a"]),
        ({"properties": {"a": {"items": {"type": "string"}, "type": "array"}}}, ["a (array of string)"]),
        ({"properties": {"a": {"properties": {"b": {}}}}, "required": ["a"]}, ["a (required)", "a.b"]),
        ({"properties": {"a": True, "b": None, "c": {"type": 3, "enum": 3, "items": 3}}}, ["a", "b", "c"]),
        ({"properties": [], "required": 3, "$defs": 3}, []),
        ({"allOf": [{"$ref": "#/$defs/B"}, {"properties": {"c": {}}, "required": ["c"]}], "properties": {"a": {}},
          "$defs": {"B": {"properties": {"b": {"type": "string"}}}}}, ["b (string)", "c (required)", "a"]),
        ({"properties": {"a": {"allOf": [{"$ref": "#/$defs/B"}], "default": "x", "description": "how"}},
          "$defs": {"B": {"type": "string", "enum": ["x", "y"]}}}, ["a (string): how; one of x, y; default x"]),
        ({"properties": {"a": {"allOf": [3, {"properties": 3}]}}, "allOf": {}}, ["a"]),
        ({}, []),
    ],
)  # fmt: skip
def test_a_schema_is_a_line_a_parameter_whatever_it_holds(schema: dict[str, Any], lines: list[str]) -> None:
    assert parameter_lines(schema) == (lines, False)


def test_a_schema_that_refers_to_itself_ends() -> None:
    choices = [{"$ref": "#/$defs/A"}] * 1000
    schema = {"properties": {f"p{n}": {"$ref": "#/$defs/A"} for n in range(1000)}}
    schema["$defs"] = {"A": {"anyOf": choices, "allOf": choices, **schema}}

    lines, more = parameter_lines(schema)
    assert (len(lines), more) == (MAX_PARAMETERS, True)


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(SourceError, match=r"pip install 'findingaid\[mcp\]'"):
        source({"a": {"command": "x"}}).discover()


def test_a_server_gets_what_every_program_needs_and_its_own_env(
    tmp_path: Path, pids: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIDS", str(pids))

    source({"a": scripted(tmp_path)}).discover()

    assert "PIDS" in os.environ
    assert not pids.exists()
