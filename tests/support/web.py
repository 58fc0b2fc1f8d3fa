"""Web servers on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def on_loopback(handler: type[BaseHTTPRequestHandler], **how: Any) -> Iterator[str]:
    """Serve by a handler, which logs nothing; yield the address, which ends with the port."""
    quiet = type(handler.__name__, (handler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, **how)) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
