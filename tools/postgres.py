"""Temporary PostgreSQL server for tests and benchmarks; needs Debian's package `postgresql`."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "findingaid"


def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl, which Debian does not put on the PATH, or None if not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parent.parent.name))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


@dataclass(frozen=True)
class Server:
    """Running server, reachable through a Unix socket in its folder."""

    folder: Path
    psql: Path

    def database(self, name: str) -> str:
        """Create a database and return its SQLAlchemy URL."""
        psql = [self.psql, "-h", self.folder, "-U", USER, "-d", "postgres", "-qc", f'CREATE DATABASE "{name}"']
        subprocess.run(psql, check=True)
        # In SQLAlchemy 2.1 plain `postgresql://` means psycopg 3, but dagster-postgres needs psycopg2.
        return f"postgresql+psycopg2://{USER}@/{name}?host={self.folder}"


@contextmanager
def server(*settings: str) -> Iterator[Server]:
    """Run a new, empty server; `settings` are those of postgresql.conf, such as fsync=off.

    Raises FileNotFoundError if PostgreSQL is not installed, and RuntimeError if one of its programs fails.
    """
    bin_ = programs()
    if bin_ is None:
        raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="findingaid-postgres-"))
    # PostgreSQL refuses to run as root; Debian's package creates a user for it.
    user = pwd.getpwnam("postgres") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    os.chown(folder, user.pw_uid, user.pw_gid)

    def run(program: str, *arguments: str) -> None:
        command = [bin_ / program, "-D", folder / "data", *arguments]
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **identity)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")

    try:
        run("initdb", "-U", USER, "-A", "trust", "--no-sync")
        options = [f"-c {setting}" for setting in ("listen_addresses=", f"unix_socket_directories={folder}", *settings)]
        run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", " ".join(options))
        try:
            yield Server(folder, bin_ / "psql")
        finally:
            run("pg_ctl", "stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder)
