"""Storage locations for files: real ones, filled in the way that their users fill them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Mapping
from contextlib import ExitStack
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import fsspec

from tests.support.buckets import Bucket
from tests.support.web import on_loopback

OLD = 1_600_000_000
USER, PASSWORD = "ada", "pa55-of-the-test"


class Place(ABC):
    """Storage location with files that change; `root` and `options` are the settings of a source for it."""

    root: str
    options: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, name: str, text: str | bytes) -> None:
        self.files[name] = text.encode() if isinstance(text, str) else text
        self.fill()

    def delete(self, name: str) -> None:
        del self.files[name]
        self.fill()

    @abstractmethod
    def fill(self) -> None:
        """Write the current `files` to the storage, and remove others."""

    @abstractmethod
    def lose(self) -> None:
        """Make the storage impossible to list."""


class Folder(Place):
    """Files in a local folder, the base of most other locations.

    The modification times lie in the past and increase with every change.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.root = str(folder)
        folder.mkdir(parents=True)
        self.clock = OLD

    def fill(self) -> None:
        for path in [path for path in self.folder.rglob("*") if path.is_file()]:
            if path.relative_to(self.folder).as_posix() not in self.files:
                path.unlink()
        for name, content in self.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
                self.clock += 1
                os.utime(path, (self.clock, self.clock))

    def lose(self) -> None:
        shutil.rmtree(self.folder)


class Zip(Folder):
    """ZIP archive, addressed by its path."""

    suffix = ".zip"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "files")
        self.path = folder / f"docs{self.suffix}"
        self.root = str(self.path)

    def fill(self) -> None:
        super().fill()
        with zipfile.ZipFile(self.path, "w") as archive:
            for path in sorted(self.folder.rglob("*")):
                archive.write(path, path.relative_to(self.folder))

    def lose(self) -> None:
        self.path.write_bytes(self.path.read_bytes()[:100])


class Tar(Zip):
    suffix = ".tar.gz"

    def fill(self) -> None:
        Folder.fill(self)
        with tarfile.open(self.path, "w:gz") as archive:
            for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
                archive.add(path, path.relative_to(self.folder))
        os.utime(self.path, (self.clock, self.clock))


class Git(Folder):
    """Branch of a Git repository; sources read its commits, not its working tree."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "repository")
        self.git("init", "-q", "-b", "main")
        self.root = f"git://{self.folder}:main@"

    def fill(self) -> None:
        for name in self.git("ls-files", "-z").split("\0"):
            if (path := self.folder / name).is_file():
                path.unlink()
        for name, content in self.files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
        self.git("add", "-A")
        self.git("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", "as it is now")

    def lose(self) -> None:
        self.git("branch", "-m", "main", "other")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *arguments], capture_output=True, text=True, check=True)
        return done.stdout


class Memory(Place):
    """Files in fsspec's in-memory file system."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.root = f"memory://{folder.name}"
        self.fs = fsspec.filesystem("memory")

    def fill(self) -> None:
        there = {name: self.fs.cat_file(name) for name in self.fs.find(self.root)}
        wanted = {f"{self.root.removeprefix('memory:/')}/{name}": content for name, content in self.files.items()}
        for name in there.keys() - wanted.keys():
            self.fs.rm_file(name)
        for name, content in wanted.items():
            if there.get(name) != content:
                self.fs.pipe_file(name, content)

    def lose(self) -> None:
        self.fs.rm(self.root, recursive=True)


class S3(Place):
    """Folder of a bucket on moto's S3 server."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__()
        self.bucket = bucket
        self.root = f"s3://{bucket.name}/team/docs"
        self.options = bucket.options

    def fill(self) -> None:
        there = self.bucket.contents()
        wanted = {f"team/docs/{name}": content for name, content in self.files.items()}
        for key in there.keys() - wanted.keys():
            self.bucket.delete(key)
        for key, content in wanted.items():
            if there.get(key) != content:
                self.bucket.write(key, content)

    def lose(self) -> None:
        for key in self.bucket.contents():
            self.bucket.delete(key)
        self.bucket.client.delete_bucket(Bucket=self.bucket.name)


class Http(Folder):
    """Folder served by Python's web server, with a password."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "served")
        place = self
        self.asked: list[tuple[str, str]] = []
        self.failing = re.compile("(?!)")
        self.media_type = ""
        self.moved: dict[str, str] = {}

        class Handler(SimpleHTTPRequestHandler):
            def send_head(self) -> Any:
                place.asked.append((self.command, self.path))
                if self.headers["Authorization"] != f"Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}":
                    return self.send_error(401)
                if place.failing.search(self.path):
                    return self.send_error(503)
                if to := place.moved.get(self.path) or place.moved.get(f"{self.command} {self.path}"):
                    self.send_response(302)
                    self.send_header("Location", to)
                    return self.end_headers()
                return super().send_head()

            def guess_type(self, path: Any) -> str:
                return place.media_type or super().guess_type(path)

        self.server = ExitStack()
        self.host = self.server.enter_context(on_loopback(Handler, directory=str(self.folder))).removeprefix("http://")
        self.root = f"http://{USER}:{PASSWORD}@{self.host}/"

    def lose(self) -> None:
        self.failing = re.compile("^/$")

    def read(self) -> list[str]:
        """Return the paths of files that were requested since the last call of this method."""
        read = sorted(path for command, path in self.asked if command == "GET" and not path.endswith("/"))
        self.asked.clear()
        return read
