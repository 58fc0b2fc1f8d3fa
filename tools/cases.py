"""Run a folder of cases, programs that print PASS or FAIL: `make cases CASES=FOLDER`.

A `try.py` gets the path of the `findingaid` command as its argument, any other program none. A folder is searched for
both at every depth. Each case has a time limit. The exit status is 1 if one does not print PASS.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECONDS = 300
COMMAND = Path(sys.executable).with_name("findingaid")
VERDICT = re.compile(r"^(PASS|FAIL)\b.*", re.MULTILINE)


def find_cases(folder: Path) -> list[Path]:
    """Return every program below a folder, in order of their paths."""
    return sorted(folder.rglob("*.py"))


def run_case(case: Path) -> str:
    """Return the last verdict that a case prints, or else the reason why there is none."""
    arguments = [str(COMMAND)] if case.name == "try.py" else []
    try:
        done = subprocess.run(
            [sys.executable, case, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"FAIL: no end within {SECONDS} s"
    verdicts = [found.group() for found in VERDICT.finditer(done.stdout)]
    lines = (done.stderr or done.stdout).strip().splitlines()
    return verdicts[-1] if verdicts else f"FAIL: no verdict; it ends with {lines[-1] if lines else 'no output'}"


def main(folder: Path) -> int:
    """Run all cases of a folder, print a line for each, and return the exit status."""
    cases = find_cases(folder)
    if not cases:
        print(f"no cases below {folder}: name a folder with programs", file=sys.stderr)
        return 2
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, verdict in zip(cases, pool.map(run_case, cases), strict=True):
            name = case.parent if case.name == "try.py" else case.with_suffix("")
            print(f"{name.relative_to(folder)}  {verdict}", flush=True)
            failed += not verdict.startswith("PASS")
    print(f"{len(cases) - failed} of {len(cases)} passed")
    return int(failed > 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make cases CASES=FOLDER")
    sys.exit(main(Path(sys.argv[1]).resolve()))
