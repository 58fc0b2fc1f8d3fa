"""Runner for guides: executes the code blocks of a guide in an empty folder, in order, as a reader would.

- A block whose first line is a comment with a file name is written to that file.
- A `bash` block runs as a script, a `console` block command by command, and a `python` block as a program.
- A `text` block is not run.
- Blocks that install packages are skipped.
- Commands that start a server run in the background until the end, on a free port that replaces the port in the guide.
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

from findingaid.config.settings import ServeSettings
from findingaid.testing import OpenAIServer

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = [DOCS / "tutorial.md", DOCS / "permissions.md", *sorted((DOCS / "howto").glob("*.md"))]

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
INSTALLS = re.compile(r"^(pip|apt-get|make) ", re.MULTILINE)
SERVES = re.compile(r"^(?:dg dev|findingaid serve http|findingaid serve mcp --transport http)\b.*$", re.MULTILINE)
PORT = re.compile(r" --port (\d+)")
FAILS = ("# this fails",)
"""Ending of a command that must fail, because the guide shows the failure."""

HOME = "/home/ada/library"
"""Folder that appears in the output of guides instead of the real one."""

KEYS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "OPENAI_API_KEY": "any"}
BUCKET = "my-bucket"
PATIENCE = 240
"""Seconds that a block may take; automatic Dagster runs start within a minute or two."""


class BrokenGuideError(Exception):
    """A block of a guide cannot be run or does not do what the guide says."""


@dataclass
class Reader:
    """Reader who follows a guide in a folder."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    exported: list[str] = field(default_factory=list)
    serving: ExitStack = field(default_factory=ExitStack)
    ports: dict[str, str] = field(default_factory=dict)
    """Port in the guide -> the free port that replaces it."""

    def follow(self, guide: str) -> str:
        """Run all blocks of a guide, and return its text with the actual output of every console command."""
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
            with suppress(ProcessLookupError):  # it has already ended
                os.killpg(process.pid, signal.SIGINT)
            process.wait(PATIENCE)

    def _bash(self, script: str) -> list[str]:
        return ["bash", "-euc", "\n".join([*self.exported, self._real(script)])]

    def _place(self) -> dict[str, Any]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"cwd": self.folder, "env": {**os.environ, "PATH": path, **self.environment}}


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def is_ready(port: str) -> bool:
    """Return whether `findingaid serve` is ready to answer searches on this port."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """Run a fake object storage and model endpoint, and yield the environment variables that point to them."""
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
