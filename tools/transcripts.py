"""Updater of transcripts: runs the commands in README.md, docs/ and an example, and writes their output below them.

    .venv/bin/python -m tools.transcripts

Commands are lines that begin with "$ " in fenced `console` blocks. The tutorial and the how-tos are run by
`tools/guides.py`, each in an empty folder.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.guides import GUIDES, Reader, servers

ROOT = Path(__file__).parent.parent
COLLECTIONS = ROOT / "examples" / "collections"
PLACES = dict.fromkeys(("answers.md", "claims.md"), ROOT / "examples" / "answers")
"""Document -> folder in which its commands run, starting without an index."""

BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    """Return the commands of a block."""
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def run(command: str, folder: Path) -> str:
    """Run a command in a folder and return its standard output and standard error."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    shown = (done.stdout + done.stderr).replace(str(ROOT), "/path/to/findingaid")
    return "\n".join(line.rstrip() for line in shown.splitlines())


def fill(document: str, folder: Path = ROOT) -> str:
    """Return the document with the actual output below each command."""
    return BLOCK.sub(lambda m: "".join(f"$ {c}\n{run(c, folder)}\n" for c in commands(m.group())), document)


if __name__ == "__main__":
    for path in [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {*GUIDES})]:
        folder = PLACES.get(path.name, ROOT)
        if folder != ROOT:
            shutil.rmtree(folder / ".findingaid", ignore_errors=True)
        path.write_text(fill(path.read_text(), folder))
    shutil.rmtree(COLLECTIONS / ".findingaid", ignore_errors=True)  # its transcript starts with the first run
    (COLLECTIONS / "README.md").write_text(fill((COLLECTIONS / "README.md").read_text(), COLLECTIONS))
    with servers() as variables:
        for guide in GUIDES:
            with TemporaryDirectory() as empty:
                guide.write_text(Reader(Path(empty), variables).follow(guide.read_text()))
