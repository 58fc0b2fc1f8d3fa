"""Messages as Outlook saves them (.msg): OLE files, which no kept library with a free licence writes."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, datetime

SECTOR, MINI_SECTOR, CUTOFF = 512, 64, 4096
END, FREE, FAT_SECTOR = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
ROOT, STORAGE, STREAM = 5, 1, 2

Properties = Mapping[int, str | bytes | int | datetime]
"""Values of properties: text, content of a file or stream, number, or time."""


def outlook(
    said: Properties, to: tuple[str, ...] = (), attached: tuple[Properties, ...] = (), code_page: str = ""
) -> bytes:
    """Return a saved message. An attached file with the key 0 is a message, whose payload that key has.

    With a `code_page` such as cp1251 its texts are stored in that, as by Outlook before 2003.
    """
    streams: dict[str, bytes] = {}
    _store(streams, "", said, 32, code_page)
    for n, each in enumerate(to):
        name, _, address = each.rpartition(" ")
        person = {0x3001: name or address, 0x39FE: address, 0x0C15: 1}
        _store(streams, f"__recip_version1.0_#{n:08X}/", person, 8, code_page)
    for n, file in enumerate(attached):
        place = f"__attach_version1.0_#{n:08X}/"
        _store(streams, place, {number: value for number, value in file.items() if number}, 8, code_page)
        if inner := file.get(0):
            assert isinstance(inner, dict)
            _store(streams, f"{place}__substg1.0_3701000D/", inner, 24, code_page)
    return ole(streams)


def _store(streams: dict[str, bytes], place: str, said: Properties, header: int, code_page: str) -> None:
    fixed = bytes(header)
    if code_page:
        said = {**said, 0x3FFD: int(code_page.removeprefix("cp"))}
    for number, value in said.items():
        if isinstance(value, datetime):
            ticks = int((value - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10_000_000
            fixed += struct.pack("<HHIQ", 0x0040, number, 0, ticks)
        elif isinstance(value, int):
            fixed += struct.pack("<HHIQ", 0x0003, number, 0, value)
        else:
            kind = "0102" if isinstance(value, bytes) else "001E" if code_page else "001F"
            content = value if isinstance(value, bytes) else value.encode(code_page or "utf-16-le")
            streams[f"{place}__substg1.0_{number:04X}{kind}"] = content
            fixed += struct.pack("<HHIQ", int(kind, 16), number, 0, len(content))
    streams[f"{place}__properties_version1.0"] = fixed


def ole(streams: Mapping[str, bytes]) -> bytes:
    """Return an OLE file of streams, from path -> content."""
    paths = sorted({"/".join(path.split("/")[:n]) for path in streams for n in range(1, path.count("/") + 2)})
    number = {path: n for n, path in enumerate(paths, 1)}
    small = {path: content for path, content in streams.items() if len(content) < CUTOFF}
    mini, mini_fat, starts = b"", list[int](), dict[str, int]()
    for path, content in small.items():
        starts[path] = _chain(mini_fat, -(-len(content) // MINI_SECTOR))
        mini += content + bytes(-len(content) % MINI_SECTOR)
    fat: list[int] = []
    sectors = b""

    def write(content: bytes) -> int:
        nonlocal sectors
        sectors += content + bytes(-len(content) % SECTOR)
        return _chain(fat, -(-len(content) // SECTOR))

    for path, content in streams.items():
        if path not in small:
            starts[path] = write(content)
    mini_start = write(mini)
    mini_fat_start = write(struct.pack(f"<{len(mini_fat)}I", *mini_fat))
    entries = _entry("Root Entry", ROOT, _first("", paths, number), FREE, mini_start, len(mini))
    for path in paths:
        kind = STREAM if path in streams else STORAGE
        later = [each for each in paths if each > path and _above(each) == _above(path)]
        following = number[later[0]] if later else FREE
        start, size = starts.get(path, 0), len(streams.get(path, b""))
        entries += _entry(path.split("/")[-1], kind, _first(path, paths, number), following, start, size)
    directory_start = write(entries)
    n_fat = 1
    while n_fat * SECTOR // 4 < len(fat) + n_fat:
        n_fat += 1
    places = [*range(len(fat), len(fat) + n_fat)]
    fat += [FAT_SECTOR] * n_fat + [FREE] * (n_fat * SECTOR // 4 - len(fat) - n_fat)
    header = struct.pack(
        "<8s16x5H6x9I",
        *(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6),
        *(0, n_fat, directory_start, 0, CUTOFF, mini_fat_start, -(-len(mini_fat) * 4 // SECTOR), END, 0),
    )
    header += struct.pack("<109I", *places, *[FREE] * (109 - n_fat))
    return header + sectors + struct.pack(f"<{len(fat)}I", *fat)


def _chain(fat: list[int], length: int) -> int:
    """Add a chain of sectors to a table of them; return the first."""
    start = len(fat)
    fat += [*range(start + 1, start + length), END] if length else []
    return start if length else END


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _first(path: str, paths: list[str], number: Mapping[str, int]) -> int:
    return next((number[each] for each in paths if _above(each) == path), FREE)


def _entry(name: str, kind: int, child: int, following: int, start: int, size: int) -> bytes:
    said = name.encode("utf-16-le")
    return struct.pack(
        "<64sHBBIII36xIQ", said, len(said) + 2, kind, 1, FREE, following, child, start if size else END, size
    )
