"""MCP server built with the SDK, on standard input and output.

`workshop.py http` prints its port and serves HTTP requests that have the key.
"""

import socket
import sys
from enum import Enum
from typing import Annotated

import uvicorn
from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse

server = MCPServer("workshop")


class Size(BaseModel):
    width: int = Field(description="in pixels")
    height: int | None = None


class Fit(Enum):
    INSIDE = "inside"
    OUTSIDE = "outside"


@server.tool(title="Scale a picture", annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
def resize_image(
    path: Annotated[str, Field(description="Where the picture is")], size: Size, fit: Fit = Fit.INSIDE
) -> None:
    """Make a picture smaller or larger."""


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_files(folder: str = "pictures") -> list[str]:
    """Say which files are in a folder."""
    return []


class WithKey:
    """Middleware that admits requests with the key."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        refused = scope["type"] == "http" and headers.get(b"authorization") != b"Bearer key-of-the-workshop"
        app = PlainTextResponse("who are you?", 401) if refused else self.app
        await app(scope, receive, send)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    else:
        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(WithKey(server.streamable_http_app()), log_level="error")
        uvicorn.Server(config).run(sockets=[listening])
