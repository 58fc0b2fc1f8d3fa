"""Entry point of the `findingaid` command, and of `python -m findingaid`."""

from __future__ import annotations

import logging
import sys

from findingaid import cli


def main() -> None:
    """Run the command in a process of its own."""
    # Python prints what a half-made object says as it is discarded, such as an event loop for which no file could be
    # opened. The error itself is one line, and nothing follows it.
    sys.unraisablehook = lambda lost: logging.getLogger(__name__).debug(
        "%s %r: %r", lost.err_msg, lost.object, lost.exc_value
    )
    cli.main(prog_name="findingaid")


if __name__ == "__main__":
    main()
