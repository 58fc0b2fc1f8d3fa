"""Writes constraints.txt: the versions installed here, which `make` and CI install again.

    .venv/bin/python tools/constraints.py

Local parts are left out (torch 2.13.0+cpu is pinned as 2.13.0): which build fits is the machine's matter.
"""

from importlib.metadata import distributions
from pathlib import Path

HEAD = "# What CI and the Makefile install; written by tools/constraints.py.\n"
OWN = {"findingaid", "pip", "setuptools", "wheel"}

if __name__ == "__main__":
    found = {d.name.lower().replace("_", "-"): d.version.split("+")[0] for d in distributions()}
    lines = [f"{name}=={version}\n" for name, version in sorted(found.items()) if name not in OWN]
    Path("constraints.txt").write_text(HEAD + "".join(lines))
