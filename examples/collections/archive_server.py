"""The archive's MCP server: what an assistant at the desk can do for a reader. `python archive_server.py` serves it."""

from datetime import date
from typing import Annotated, Literal

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

server = MCPServer("saltmarsh")

Shelfmark = Annotated[str, Field(description="as in the catalogue: SM/FIN/3/12")]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def locate_item(shelfmark: Shelfmark) -> str:
    """Tell in which room and on which shelf an item stands now, or who has it on the table."""
    return f"{shelfmark}: room 2, bay 7, shelf 4"


@server.tool()
def reserve_seat(day: date, table: Literal["window", "maps", "microfilm"] = "window") -> str:
    """Book a seat in the reading room for a day, at a table by the window, for maps or for microfilm."""
    return f"a seat at the table for {table} on {day}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def cancel_order(number: int) -> str:
    """Call back an order before the item is fetched from the store; the item is free for others again."""
    return f"order {number} is cancelled"


@server.tool()
def request_scan(shelfmark: Shelfmark, pages: str, resolution: int = 300) -> str:
    """Have pages of an item digitised and sent to the reader as pictures, with what that will cost."""
    return f"{shelfmark}, pages {pages}, at {resolution} dpi: 12.50 pounds"


if __name__ == "__main__":
    server.run()
