"""Generator of constraints.txt: the package versions of this environment, which `make` and CI install.

    .venv/bin/python tools/constraints.py

Local version labels are left out (torch 2.13.0+cpu is pinned as 2.13.0), because the right build depends on the
machine.
"""

from importlib.metadata import distributions
from pathlib import Path

HEAD = "# What CI and the Makefile install; written by tools/constraints.py.\n"
OWN = {"findingaid", "pip", "setuptools", "wheel"}

if __name__ == "__main__":
    found = {d.name.lower().replace("_", "-"): d.version.split("+")[0] for d in distributions()}
    lines = [f"{name}=={version}\n" for name, version in sorted(found.items()) if name not in OWN]
    Path("constraints.txt").write_text(HEAD + "".join(lines))
