"""Places other than a folder of this machine, as fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import text_about
from tests.support.places import S3, Git, Http, Memory, Place, Tar, Zip
from tests.support.shares import Sftp, Share, Smb, WebDav

NAMES = ("a.md", "sub/b.md", "sub/deep/c d.md")


@pytest.fixture
def http(tmp_path: Path) -> Iterator[Http]:
    place = Http(tmp_path)
    with place.server:
        yield place


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Callable[[type[Share]], Share]]:
    """Function that starts a file server, which is stopped after the test."""
    started: list[Share] = []

    def start(kind: type[Share]) -> Share:
        started.append(kind(tmp_path))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    made: dict[str, Callable[[], Place]] = {
        "s3": lambda: S3(request.getfixturevalue("bucket")),
        "http": lambda: request.getfixturevalue("http"),
        "zip": lambda: Zip(tmp_path),
        "tar": lambda: Tar(tmp_path),
        "git": lambda: Git(tmp_path),
        "memory": lambda: Memory(tmp_path),
        "webdav": lambda: request.getfixturevalue("share")(WebDav),
        "sftp": lambda: request.getfixturevalue("share")(Sftp),
        "smb": lambda: request.getfixturevalue("share")(Smb),
    }
    filled = made[request.param]()
    for name in NAMES:
        filled.put(name, text_about(name))
    return filled
