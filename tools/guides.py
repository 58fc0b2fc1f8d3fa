"""Follows a guide: does in an empty folder, block by block, what it tells its reader to do.

A block whose first line is a comment with a file name is that file. One in `bash` is run as it stands, one in
`console` command by command, one in `python` as a program. One in `text` is only read. What installs is left out, what
serves goes on beside the rest until the end, on a free port that stands for the one that the guide names.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

from findingaid.config import ServeSettings
from findingaid.testing import OpenAIServer

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = [DOCS / "tutorial.md", *sorted((DOCS / "howto").glob("*.md"))]

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
INSTALLS = re.compile(r"^(pip|apt-get|make) ", re.MULTILINE)
SERVES = re.compile(r"^(?:dagster dev|findingaid serve http|findingaid serve mcp --transport http)\b.*$", re.MULTILINE)
PORT = re.compile(r" --port (\d+)")
FAILS = ("# this fails",)
"""At the end of a command that is to fail, since the guide shows how that looks."""

HOME = "/home/ada/library"
"""Where a guide is shown to have been followed."""

KEYS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "OPENAI_API_KEY": "any"}
BUCKET = "my-bucket"
PATIENCE = 240
"""Seconds that a block may take; runs by themselves start within a minute or two."""


class BrokenGuideError(Exception):
    """A guide does not do what it says."""


@dataclass
class Reader:
    """Somebody who follows a guide in a folder."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    exported: list[str] = field(default_factory=list)
    serving: ExitStack = field(default_factory=ExitStack)
    ports: dict[str, str] = field(default_factory=dict)
    """The port that a guide names -> the free one that stands for it."""

    def follow(self, guide: str) -> str:
        """Do all that a guide says; what it then looks like, with the output of every command."""
        with self.serving:
            return FENCE.sub(lambda block: f"```{block[1]}\n{self._do(block[1], block[2])}```", guide)

    def _do(self, language: str, block: str) -> str:
        named = FILE.match(block)
        if named:
            (self.folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / named[1]).write_text(self._real(block))
            return block
        match language:
            case "bash":
                if not INSTALLS.search(block):
                    self._script(block)
            case "console":
                return "".join(self._shown(line) for line in block.splitlines() if line.startswith("$ "))
            case "python":
                self._run(f"{sys.executable} - <<'PYTHON'\n{block}PYTHON")
            case "text":
                pass
            case _:
                raise BrokenGuideError(f"nobody can follow a block of {language!r} that names no file:\n{block}")
        return block

    def _script(self, block: str) -> None:
        self.exported += [line for line in block.splitlines() if line.startswith("export ")]
        self._run(SERVES.sub("", block))
        for command in SERVES.findall(block):
            self._serve(command)

    def _serve(self, command: str) -> None:
        port = str(free_port())
        if command.startswith("dagster"):  # the blocks behind it wait for what it does
            self.serving.enter_context(self._beside(f"{command} -p {port}"))
            return
        named = PORT.search(command)
        self.ports[named[1] if named else str(ServeSettings().port)] = port
        server = self.serving.enter_context(self._beside(f"{PORT.sub('', command)} --port {port}"))
        deadline = time.monotonic() + PATIENCE
        while not is_ready(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise BrokenGuideError(f"{command}\nis not ready to answer")
            time.sleep(0.1)

    def _real(self, script: str) -> str:
        for named, port in self.ports.items():
            script = re.sub(rf"\b{named}\b", port, script)
        return script

    def _as_shown(self, printed: str) -> str:
        for named, port in self.ports.items():
            printed = re.sub(rf"\b{port}\b", named, printed)
        return printed.replace(str(self.folder), HOME).replace(str(Path(sys.executable).parent), f"{HOME}/.venv/bin")

    def _shown(self, line: str) -> str:
        command = line.removeprefix("$ ")
        printed = self._run(command, fails=command.endswith(FAILS))
        return "\n".join([line, *(shown.rstrip() for shown in printed.splitlines())]) + "\n"

    def _run(self, script: str, fails: bool = False) -> str:
        done = subprocess.run(
            self._bash(script),
            **self._place(),
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
        )
        if fails != bool(done.returncode):
            raise BrokenGuideError(f"{script}\ngave {done.returncode}:\n{done.stdout}")
        return self._as_shown(done.stdout)

    @contextmanager
    def _beside(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            self._bash(command),
            **self._place(),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # it ended by itself
                os.killpg(process.pid, signal.SIGINT)
            process.wait(PATIENCE)

    def _bash(self, script: str) -> list[str]:
        return ["bash", "-euc", "\n".join([*self.exported, self._real(script)])]

    def _place(self) -> dict[str, Any]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"cwd": self.folder, "env": {**os.environ, "PATH": path, **self.environment}}


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def is_ready(port: str) -> bool:
    """Whether `findingaid serve` would answer a search there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """The object storage and the model that guides speak to: the variables that lead there instead."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    storage = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    storage.start()
    try:
        host, port = storage.get_host_and_port()
        variables = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            **KEYS,
        }
        boto3.client(
            "s3",
            endpoint_url=variables["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="any",
        ).create_bucket(Bucket=BUCKET)
        with OpenAIServer() as model:
            yield {**variables, "OPENAI_BASE_URL": model.base_url}
    finally:
        storage.stop()
