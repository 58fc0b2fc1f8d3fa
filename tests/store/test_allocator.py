"""The threads of Lance share a few arenas of the C library's memory, where memory that is freed is used again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from findingaid.store.allocator import MOST_ARENAS

COUNT_ARENAS = """
import ctypes, sys, threading
from findingaid.store import Store

Store(sys.argv[1])
started = threading.Barrier(33)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def take():
    started.wait()
    libc.malloc(1000)  # without the lock of the interpreter, so that threads get arenas of their own
    started.wait()

for _ in range(32):
    threading.Thread(target=take).start()
started.wait()
started.wait()
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(
    ("setting", "most"), [({}, min(os.cpu_count() or 1, MOST_ARENAS)), ({"MALLOC_ARENA_MAX": "1"}, 1)]
)
def test_a_store_limits_the_arenas_unless_the_environment_does(
    tmp_path: Path, setting: dict[str, str], most: int
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"} | setting
    made = tmp_path / "arenas.xml"
    subprocess.run([sys.executable, "-c", COUNT_ARENAS, tmp_path / "index", made], env=environment, check=True)

    assert 1 <= made.read_text().count("<heap nr=") <= most
