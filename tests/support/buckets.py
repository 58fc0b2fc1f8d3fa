"""Buckets on moto's S3 server, which is reached on loopback over HTTP like any other."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

KEY, SECRET = "key-of-the-test", "s3cr3t-of-the-test"


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """Address of a server, one for all tests of a process."""
    from moto import backends
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # The server lists its modules on disk twice for each request, a third of the time that a request takes.
    modules = frozenset(backends.list_of_moto_modules())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "list_of_moto_modules", lambda: modules)
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


@dataclass
class Bucket:
    """Bucket for one test, with access to its objects."""

    client: Any
    name: str
    endpoint: str

    @property
    def uri(self) -> str:
        return f"s3://{self.name}/team/index"

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "allow_http": "true",
            "aws_access_key_id": KEY,
            "aws_secret_access_key": SECRET,
        }

    def keys(self, part: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [found["Key"] for page in pages for found in page.get("Contents", []) if part in found["Key"]]

    def contents(self, part: str = "") -> dict[str, bytes]:
        return {key: self.read(key) for key in self.keys(part)}

    def read(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body

    def write(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)


@pytest.fixture
def bucket(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    import boto3

    name = re.sub("[^a-z0-9]+", "-", f"{tmp_path.parent.name}-{tmp_path.name}".lower())[-60:].strip("-")
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
    )
    client.create_bucket(Bucket=name)
    return Bucket(client, name, endpoint)


@contextmanager
def refusing_keys(bucket: Bucket) -> Iterator[None]:
    """While it lasts, the server looks at keys, and knows none."""
    import requests

    requests.post(f"{bucket.endpoint}/moto-api/reset-auth", data="0", timeout=10).raise_for_status()
    yield
    requests.post(f"{bucket.endpoint}/moto-api/reset-auth", data="inf", timeout=10).raise_for_status()
