"""Proposed configuration of a folder: its corpora and the files that it leaves out, as a commented findingaid.yaml."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from textwrap import dedent, indent

import yaml
from pathspec import PathSpec

from findingaid.errors import ConfigError, ReadError
from findingaid.model import Failure, Listing
from findingaid.reports import format_counts, suffix_of
from findingaid.sources.documents import OCR, PICTURES, converter_id, format_of
from findingaid.sources.files import HEAD_BYTES, Files, head_of
from findingaid.sources.patterns import escape, pattern_of, shown_name
from findingaid.sources.skills import is_skill
from findingaid.text.decoding import NOT_TEXT, decode

GENERATED = ("node_modules", "__pycache__", "site-packages", "dist", "build", "target", "venv")
"""Folders that programs write; they are left out when they are there."""

HEAD = (
    "# `findingaid config show` lists every setting, its value and the place that sets it.",
    "store: .findingaid/index  # the index; `findingaid index` makes it anew if you delete it",
    "",
    "corpora:",
)

SAMPLES = 5
"""Files of each suffix that are opened to tell text from other content."""

SESSION = re.compile(rb'^\{[^\n]*"sessionId"')
"""Beginning of a transcript of Claude Code."""

CONVERTERS = "not read: install findingaid[documents]"


@dataclass(frozen=True)
class ProposedConfig:
    """Configuration proposed for a folder.

    `indexed` counts files by suffix, "" for none, and `skipped` those that are not text, which a run skips. `excluded`
    has the patterns that leave out the others; `reasons` maps patterns to reasons. `skills` and `sessions` are folders
    that hold skills and transcripts, relative to `root`.
    """

    root: str
    corpus: str
    indexed: Mapping[str, int]
    skipped: Mapping[str, int]
    excluded: Sequence[str]
    reasons: Mapping[str, str]
    skills: Sequence[str]
    sessions: Sequence[str]

    @property
    def names(self) -> list[str]:
        """Names of its corpora."""
        return list(yaml.safe_load("\n".join(self._corpora())))

    def without(self, failures: Sequence[Failure]) -> ProposedConfig:
        """Return the configuration that also leaves out files that failed when they were tried."""
        failed = _reasons(failures)
        gone = Counter(suffix_of(failure.artifact_id) for failure in failures)
        return replace(
            self,
            indexed={suffix: left for suffix, count in self.indexed.items() if (left := count - gone[suffix])},
            excluded=[*self.excluded, *failed],
            reasons={**self.reasons, **failed},
        )

    def yaml(self) -> str:
        """Return the commented findingaid.yaml."""
        return "\n".join([*HEAD, *self._corpora()]) + "\n"

    def added_to(self, text: str) -> str:
        """Return the text of a configuration with these corpora behind its own.

        Raises ConfigError if it has a corpus of such a name, or if its layout leaves no place for more.
        """
        given, corpora = yaml.safe_load(text) or {}, yaml.safe_load("\n".join(self._corpora()))
        if taken := corpora.keys() & (given.get("corpora") or {}).keys():
            raise ConfigError(f"corpora: there is a corpus {min(taken)!r} already")
        begin = re.search(r"^corpora:[ \t]*(?:#.*)?$", text, re.MULTILINE)
        end = begin and re.compile(r"^\S(?<!#)", re.MULTILINE).search(text, begin.end())
        at = len(text) if end is None else end.start()
        found = begin and re.compile(r"^ +(?=[^\s#])", re.MULTILINE).search(text, begin.end(), at)
        own = indent(dedent("\n".join(self._corpora())), found[0] if found else "  ")
        added = "\n".join([text[:at].rstrip("\n"), own, "", text[at:]]).rstrip("\n") + "\n"
        expected = {**given, "corpora": {**(given.get("corpora") or {}), **corpora}}
        try:
            fits = begin is not None and yaml.safe_load(added) == expected
        except yaml.YAMLError:
            fits = False
        if not fits:
            by_hand = json.dumps(corpora, ensure_ascii=False)[1:-1]
            raise ConfigError(f"corpora: its layout leaves no place for more; add to it by hand: {by_hand}")
        return added

    def _corpora(self) -> Iterator[str]:
        yield from self._files_corpus()
        yield from _collection_corpus("skills", self.root, self.skills, "roots: [{}]")
        yield from _collection_corpus("sessions", self.root, self.sessions, "root: {}")

    def _files_corpus(self) -> Iterator[str]:
        if not self.indexed and (self.skills or self.sessions):
            return
        yield f"  {quote_yaml(self.corpus)}:  # {format_counts(self.indexed)}"
        yield "    source:"
        yield "      kind: files"
        yield f"      root: {quote_yaml(self.root)}"
        if self.skipped:
            yield f"      # skipped, since they are {NOT_TEXT}: {format_counts(self.skipped)}"
        if self.skipped.keys() & PICTURES or any(OCR in why for why in self.reasons.values()):
            yield "      # ocr: true  # reads the text of scans and pictures: pip install 'findingaid[ocr]'"
        if self.excluded:
            yield "      exclude:"
            for pattern in self.excluded:
                why = self.reasons.get(pattern, "")
                yield f"        - {quote_yaml(pattern)}{f'  # {why}' if why else ''}"
        yield "    synopsis: true  # a summary of each file, made of its own sentences"
        yield "    # claims: true  # statements of the files, which people review and answers cite first"


def propose_config(folder: Path, base: Path) -> ProposedConfig:
    """Look at a folder and propose a configuration, for a file in the folder `base`.

    Opens a few files of each kind. Raises ConfigError if the folder does not exist or holds no file, and SourceError if
    it cannot be listed.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder")
    if (shown := shown_name(root := os.path.relpath(folder, base))) != root:
        raise ConfigError(f"{shown}: its name is not valid UTF-8: rename it")
    own = ["/findingaid.yaml"] if folder.resolve() == base.resolve() else []
    generated = _find_generated(folder)
    discovered = Files(folder, exclude=(*generated, *own)).discover()
    listings = discovered.listings
    if not listings:
        raise ConfigError(f"{folder}: holds no file to index (hidden files do not count)")
    skill_folders, session_folders = _skill_folders(listings), _session_folders(folder, listings)
    skills, sessions = _outermost(map(_parent, skill_folders)), _outermost(session_folders)
    taken = [f"{pattern_of(name)}/" for name in (*(skills if "" not in skills else skill_folders), *sessions) if name]
    taken += ["*.jsonl"] if "" in sessions else []
    of_others = PathSpec.from_lines("gitignore", taken)
    found = _SortedFiles(folder, [x for x in listings if not of_others.match_file(x.artifact_id)])
    notes = dict.fromkeys(generated, "written by programs") | dict.fromkeys(taken, "a corpus of its own, below")
    failed = _reasons(discovered.failures)
    return ProposedConfig(
        root,
        corpus_name(folder),
        _by_suffix(found.indexed),
        _by_suffix(found.skipped),
        [*own, *generated, *taken, *found.patterns, *failed],
        notes | found.patterns | failed,
        skills,
        sessions,
    )


def _reasons(failures: Iterable[Failure]) -> dict[str, str]:
    """Map the patterns of files that failed to the reasons."""
    return {
        pattern_of(f.artifact_id): f.message.partition(": exclude it")[0]
        .removesuffix(" or exclude it")
        .removesuffix(",")
        for f in failures
    }


@dataclass
class _SortedFiles:
    """Files of a folder: those to index, those that a run skips, and patterns for the others, each with the reason."""

    folder: Path
    listings: Sequence[Listing]
    indexed: list[Listing] = field(default_factory=list)
    skipped: list[Listing] = field(default_factory=list)
    patterns: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        groups: dict[str, list[Listing]] = defaultdict(list)
        for listing in self.listings:
            groups[_suffix(listing)].append(listing)
        for listing in groups.pop("", []):  # these have nothing in common
            self._take(listing, _reason_to_skip(self.folder, [listing]))
        for suffix, group in sorted(groups.items()):
            why = _reason_to_skip(self.folder, group)
            if why == NOT_TEXT:
                self.skipped += group
                continue
            if why:
                self.patterns[f"*{escape(suffix)}"] = f"{len(group):,} {'file' if len(group) == 1 else 'files'}, {why}"
                continue
            for listing in group:
                self._take(listing, "")

    def _take(self, listing: Listing, why: str) -> None:
        """Take one file, or leave it out by its path for a reason; one that is too large has a reason in any case."""
        if why == NOT_TEXT:
            self.skipped.append(listing)
            return
        if listing.size > Files.max_bytes:
            why = f"{listing.size / 1e6:,.0f} MB, more than max_bytes"
        if why:
            self.patterns[pattern_of(listing.artifact_id)] = why
        else:
            self.indexed.append(listing)


def _find_generated(folder: Path) -> list[str]:
    """Return the patterns of folders that programs write and that are there."""
    found: set[str] = set()
    for _, folders, _ in os.walk(folder):
        found |= {name for name in folders if name in GENERATED}
        folders[:] = [name for name in folders if name not in GENERATED and not name.startswith(".")]
    return sorted(f"{name}/" for name in found)


def _collection_corpus(kind: str, root: str, folders: Sequence[str], place: str) -> Iterator[str]:
    """Yield the corpus of each folder of skills or sessions."""
    for n, folder in enumerate(folders, start=1):
        path = str(PurePosixPath(root) / folder) if folder else root
        yield f"  {kind}{n if len(folders) > 1 else ''}:"
        yield f"    source: {{kind: {kind}, {place.format(quote_yaml(path))}}}"


def _skill_folders(listings: Iterable[Listing]) -> list[str]:
    """Return the folders that hold a SKILL.md."""
    return sorted({_parent(x.artifact_id) for x in listings if is_skill(PurePosixPath(x.artifact_id))} - {""})


def _session_folders(folder: Path, listings: Iterable[Listing]) -> list[str]:
    """Return the folders that hold transcripts of Claude Code."""
    found: set[str] = set()
    for listing in (x for x in listings if x.artifact_id.endswith(".jsonl")):
        parent = _parent(listing.artifact_id)
        if parent not in found and SESSION.match(_head(folder, listing)):
            found.add(parent)
    return sorted(found)


def _parent(path: str) -> str:
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent


def _outermost(folders: Iterable[str]) -> list[str]:
    """Return the folders that are below no other."""
    every = set(folders)
    return sorted(f for f in every if not any(f != other and _within(f, other) for other in every))


def _within(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _reason_to_skip(folder: Path, group: Sequence[Listing]) -> str:
    """Return why files of one suffix cannot be indexed; "" if they can."""
    if (known := format_of(group[0].artifact_id)) and not known.is_text:
        return "" if converter_id(group[0].artifact_id) else CONVERTERS
    sample = group[:: max(1, len(group) // SAMPLES)][:SAMPLES]
    return "" if any(_is_text(_head(folder, listing)) for listing in sample) else NOT_TEXT


def _is_text(head: bytes) -> bool:
    """Return whether the beginning of a file is text; a character that the beginning cuts in two does not count."""
    cut = 3 if len(head) == HEAD_BYTES else 0
    for end in range(len(head), len(head) - cut - 1, -1):
        try:
            decode(head[:end])
        except ReadError:
            continue
        return True
    return False


def _head(folder: Path, listing: Listing) -> bytes:
    try:
        with open(folder / listing.artifact_id, "rb") as file:
            return head_of(listing.artifact_id, file)
    except OSError:
        return b""


def corpus_name(folder: Path) -> str:
    """Return the folder's name as that of a corpus; "files" if it has no letters, or is the name of another corpus."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", folder.resolve().name).strip("_").lower()
    return "files" if re.fullmatch(r"|(skills|sessions)\d*", name) else name


def _suffix(listing: Listing) -> str:
    return suffix_of(listing.artifact_id)


def _by_suffix(listings: Iterable[Listing]) -> Mapping[str, int]:
    return dict(Counter(map(_suffix, listings)))


def quote_yaml(text: str) -> str:
    """Return a text as a YAML scalar, in quotes unless it is a plain word."""
    plain = re.fullmatch(r"[a-z_]+", text) and yaml.safe_load(text) == text  # not so: no, null
    return text if plain else json.dumps(text, ensure_ascii=False)
