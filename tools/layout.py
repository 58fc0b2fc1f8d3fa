"""Layout of an installation, made of links: `python -m tools.layout` writes it to build/layout.

mypy, import-linter and editors look for packages in folders. They do not follow setup.py, which puts the folders of the
code location inside `findingaid_dagster`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE_LOCATION = ("assets", "pipelines", "resources")


def write(folder: Path) -> None:
    """Write the layout to a folder, in place of an earlier one."""
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "findingaid_dagster"
    package.mkdir(parents=True)
    (folder / "findingaid").symlink_to(ROOT / "findingaid")
    own = (path for path in (ROOT / package.name).iterdir() if path.name != "__pycache__")
    for path in (*own, *(ROOT / name for name in CODE_LOCATION)):
        (package / path.name).symlink_to(path)


if __name__ == "__main__":
    write(ROOT / "build" / "layout")
