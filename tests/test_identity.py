"""Ids depend on content and code: equal in every process, different if results could differ, or refused."""

from __future__ import annotations

import collections
import copy
import functools
import importlib
import operator
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pydantic
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from findingaid import ConfigError, Corpus, FindingAid, Surface, SurfacePlan, with_synopsis
from findingaid.claims.extraction import CLAIM_EXTRACTORS, ExtractiveClaims
from findingaid.claims.nodes import NODE_PRODUCERS
from findingaid.config.loading import load
from findingaid.edges import EXTRACTORS, CombinedExtractor
from findingaid.embedding import EMBEDDERS
from findingaid.embedding.hashing import HashEmbedder
from findingaid.errors import IdentityError
from findingaid.identity.code import source_hash
from findingaid.identity.fingerprints import fingerprint, producer_id
from findingaid.identity.hashes import content_hash, record_id
from findingaid.model import Segment
from findingaid.query.search.components import RERANKERS, REWRITERS, SELECTORS
from findingaid.store import Store
from findingaid.strategies import STRATEGIES
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.whole_text import WholeText
from findingaid.strategies.with_synopsis import GATES
from findingaid.synthesis import SUMMARIZERS, SYNTHESIZERS
from findingaid.synthesis.custom import Custom
from findingaid.synthesis.extractive import Extractive
from findingaid.synthesis.extractive_summary import ExtractiveSummarizer
from findingaid.testing import MemorySource, ScriptedSynthesizer
from tests.paths import DATA

MODULE = """
from dataclasses import dataclass
from findingaid import Surface, SurfacePlan

SIZE = {size}

def helper(text):  # {comment}
    return [text[i:i + SIZE] for i in range(0, len(text), SIZE)]

@dataclass(frozen=True)
class Own:
    inner: object = None
    def decompose(self, artifact_id, raw, metadata):
        return SurfacePlan({{}}, [Surface("part", part) for part in helper(raw)])
"""


@dataclass(frozen=True)
class Nested:
    inner: Any = None

    def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any]) -> SurfacePlan:
        return SurfacePlan(dict(metadata), [Surface("whole", raw)])


class Slots:
    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any = None) -> None:
        self.first, self.second = first, second


class SlotsAndMore(Slots):
    def __init__(self, first: Any, third: Any) -> None:
        super().__init__(first)
        self.third = third


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    first: Any


class Model(pydantic.BaseModel):
    first: int = 1


class Word(str):
    __slots__ = ()


class Pair(NamedTuple):
    first: int


class Red(Enum):
    ONE = 1
    TWO = 2


class Blue(Enum):
    ONE = 1
    TWO = 2


class LeaseRow:
    def __init__(self, first: Any) -> None:
        self.first = first

    def __call__(self, text: str, metadata: Mapping[str, Any]) -> str:
        return f"{self.first} {text}"

    def method(self, text: str, metadata: Mapping[str, Any]) -> str:
        return f"{self.first} {text}"


def named(prefix: str, text: str, metadata: Mapping[str, Any], *, end: str = ".") -> str:
    return f"{prefix}: {text.split()[0]}{end}"


def closing_over(value: Any) -> Callable[[], Any]:
    return lambda: value


def beginning(text: str, metadata: Mapping[str, Any]) -> str:
    return text[:1]


@functools.lru_cache
def remembered(text: str) -> str:
    return text


def in_another_process(folder: Path, code: str, **environment: str) -> str:
    """Run code in a process that keeps no bytecode: an edit within a second would run as it was before."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def id_in_another_process(folder: Path, size: int = 10, comment: str = "cuts", make: str = "Own()") -> str:
    (folder / "own_strategy.py").write_text(MODULE.format(size=size, comment=comment))
    code = (
        "from own_strategy import *; from findingaid.identity.fingerprints import producer_id;"
        f" print(producer_id({make}))"
    )
    return in_another_process(folder, code)


def test_in_other_processes_an_edited_helper_counts_and_a_comment_does_not(tmp_path: Path) -> None:
    first = id_in_another_process(tmp_path)

    assert id_in_another_process(tmp_path, comment="another word") == first
    assert id_in_another_process(tmp_path, size=11) != first


def test_the_order_of_a_mapping_counts_and_that_of_a_set_does_not() -> None:
    """Rules in a mapping may be applied one after the other."""
    assert producer_id(Nested({"a": 1, "b": 2})) != producer_id(Nested({"b": 2, "a": 1}))
    assert producer_id(Nested({"a", "b"})) == producer_id(Nested({"b", "a"}))


def test_sets_that_are_equal_have_one_hash_in_whatever_order_a_process_holds_them() -> None:
    assert [*{0, 8}] != [*{8, 0}]
    assert content_hash({"tags": [{0, 8}]}) == content_hash({"tags": [{8, 0}]}) == content_hash({"tags": [[0, 8]]})


def test_parts_do_not_run_together() -> None:
    assert content_hash("ab", "c") != content_hash("a", "bc")
    assert record_id("docs", "a", "chunk", 1) != record_id("docs", "a", "chunk", 11)
    assert record_id("docs", "a", "chunk", 1) == record_id("docs", "a", "chunk", 1)


# -- values ----------------------------------------------------------------------------------------------


def values() -> list[Any]:
    """Values that all behave differently; lambdas and partials last, which nothing else compares."""
    partial = functools.partial
    return [
        *(1, True, "1", 1.0, 0, False, 0.0, -0.0, float("nan"), float("inf"), 1j, 10**5000, None, ..., b"1", "\ud800"),
        *([1], (1,), {1}, frozenset({1}), {1: 1}, {True: 1}, {1.0: 1}, {"1": 1}, [[1]], [], (), {}, set()),
        *(re.compile("a"), re.compile("b"), re.compile("a", re.IGNORECASE), re.compile(b"a")),
        *(date(2020, 1, 1), date(2020, 1, 2), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)),
        *(time(1), time(2), timedelta(1), timedelta(2), Decimal(1), Decimal("1.0"), Decimal(2)),
        *(Fraction(1, 2), Fraction(1, 3), range(3), range(4), slice(1), slice(2), bytearray(b"a"), bytearray(b"b")),
        *(
            Slots(1),
            Slots(2),
            SlotsAndMore(1, 2),
            SlotsAndMore(1, 3),
            SlotsAndMore(2, 2),
            FrozenSlots(1),
            FrozenSlots(2),
        ),
        *(np.array([1, 2]), np.array([1, 3]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.float32(1), np.int64(1)),
        *(collections.deque([1]), collections.deque([2]), collections.deque([1], 3), collections.Counter(a=1)),
        *(collections.defaultdict(int, a=1), collections.defaultdict(list, a=1), collections.OrderedDict(a=1)),
        *(types.MappingProxyType({"a": 1}), types.SimpleNamespace(a=1), types.SimpleNamespace(a=2), {"a": 1}),
        *(operator.itemgetter(1), operator.itemgetter(2), operator.attrgetter("a"), operator.methodcaller("a", 1)),
        *("a", Word("a"), Word("b"), Pair(1), Pair(2), Red.ONE, Red.TWO, Blue.ONE, Model(first=1), Model(first=2)),
        *(Path("a"), Path("b"), PurePosixPath("a"), pd.Series([1]), pd.Series([2]), pd.DataFrame({"a": [1]})),
        *(pa.table({"a": [1]}), pa.table({"a": [2]}), pa.array([1]), pa.array([2]), pa.int64(), pa.string()),
        *(
            LeaseRow(1),
            LeaseRow(2),
            LeaseRow(1).method,
            LeaseRow(2).method,
            LeaseRow(LeaseRow(1)),
            str,
            int,
            list[int],
            list[str],
            re,
            operator,
        ),
        *(len, max, str.upper, "a".join, "b".join, re.compile("a").findall, re.compile("b").findall, remembered),
        *(partial(named, "a"), partial(named, "b"), partial(named, "a", end="!"), partial(closing_over, "a"), named),
        *(closing_over(1), closing_over(2), lambda text: text, lambda text: text + 1, lambda text, size=2: text),
        *(lambda text, size=3: text, lambda text, *, size=2: text, lambda text, *, size=3: text),
    ]


def test_values_that_behave_differently_have_different_ids() -> None:
    found: dict[str, Any] = {}
    for value in values():
        same = found.setdefault(fingerprint(Nested(value)), value)
        assert same is value, (same, value)


def test_equal_values_have_equal_ids() -> None:
    assert [fingerprint(value) for value in values()] == [fingerprint(value) for value in values()]


OTHER = """
import pickle, sys
from tests.test_identity import *
print(*map(fingerprint, values()[:-8]), flush=True)
for line in sys.stdin:
    print(*map(fingerprint, pickle.loads(bytes.fromhex(line))), flush=True)
"""


@pytest.fixture(scope="module")
def other_process() -> Iterator[subprocess.Popen[str]]:
    """A process with other hashes that prints the ids of `values`, and then of the pickles that it reads."""
    command = [sys.executable, "-c", OTHER]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        yield process
        process.stdin.close()


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=5), st.dates(),
    st.times(), st.timedeltas(), st.datetimes(), st.decimals(allow_nan=False), st.fractions(), st.complex_numbers(),
    st.uuids(), st.builds(re.compile, st.sampled_from(["a", "b+"]), st.sampled_from([0, re.IGNORECASE, re.MULTILINE])),
    st.builds(range, st.integers(0, 9)), st.sampled_from([*Red, *Blue]), st.builds(Word, st.text(max_size=3)),
    st.builds(operator.itemgetter, st.integers()), st.builds(Path, st.sampled_from(["a", "b", "a/b"])),
)  # fmt: skip
hashable = st.one_of(st.booleans(), st.integers(), st.text(max_size=5), st.floats(allow_nan=False), st.dates())
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(hashable, inner, max_size=3),
        st.frozensets(hashable, max_size=3), st.sets(hashable, max_size=3), st.builds(LeaseRow, inner),
        st.builds(Slots, inner, inner), st.builds(SlotsAndMore, inner, inner), st.builds(FrozenSlots, inner),
        st.builds(functools.partial, st.just(named), inner), st.lists(inner, max_size=3).map(collections.deque),
    ),
    max_leaves=6,
)  # fmt: skip


def shown(value: Any) -> Any:
    """Return a key that distinguishes a value from others, computed independently of ids; sets are sorted."""
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(shown, value), key=repr)
    if isinstance(value, dict):
        return type(value), [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, list | tuple | collections.deque):
        return type(value), [shown(item) for item in value]
    if isinstance(value, functools.partial):
        return type(value), value.func.__name__, shown(value.args)
    if isinstance(value, LeaseRow | Slots | FrozenSlots):
        names = ("first", "second", "third")
        return type(value), [shown(getattr(value, name, None)) for name in names]
    return type(value), repr(value)


@settings(max_examples=80)
@given(trees, trees)
def test_parameters_that_differ_give_ids_that_differ(one: Any, other: Any) -> None:
    assume(repr(shown(one)) != repr(shown(other)))

    assert fingerprint([one]) != fingerprint([other])


@settings(max_examples=40)
@given(trees)
def test_a_copy_of_a_parameter_gives_the_same_id(value: Any) -> None:
    assert fingerprint([copy.deepcopy(value)]) == fingerprint([value])


def test_ids_are_the_same_in_another_process_with_other_hashes(other_process: subprocess.Popen[str]) -> None:
    @settings(max_examples=20)
    @given(st.lists(trees, max_size=40))
    def of_any_parameter(given: list[Any]) -> None:
        other_process.stdin.write(f"{pickle.dumps(given).hex()}\n")
        other_process.stdin.flush()
        assert other_process.stdout.readline().split() == list(map(fingerprint, given))

    assert other_process.stdout.readline().split() == list(map(fingerprint, values()[:-8]))
    of_any_parameter()


def test_cycles_and_shared_values_end() -> None:
    def cycle(more: int) -> LeaseRow:
        made = LeaseRow([more])
        made.first.append({"back": made})
        return made

    shared: list[Any] = []
    for _ in range(60):
        shared = [shared, shared]

    assert fingerprint(cycle(1)) == fingerprint(cycle(1)) != fingerprint(cycle(2))
    assert fingerprint(shared)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (threading.Lock(), "attribute `inner` (a _thread.lock)"),
        (LeaseRow(threading.Lock()), "attribute `inner.first` (a _thread.lock)"),
        ({"k": [LeaseRow(threading.Lock())]}, "attribute `inner['k'][0].first` (a _thread.lock)"),
        (functools.partial(named, threading.Lock()), "attribute `inner.args[0]` (a _thread.lock)"),
        (closing_over(threading.Lock()), "attribute `inner.value` (a _thread.lock)"),
        ((letter for letter in "a"), "attribute `inner` (a generator)"),
        (iter([1]), "attribute `inner` (a list_iterator)"),
        (weakref.ref(LeaseRow), "attribute `inner` (a weakref.ReferenceType)"),
        (memoryview(b"a"), "attribute `inner` (a memoryview)"),
        (object(), "attribute `inner` (a object)"),
        (sys.stdout, "attribute `inner` (a "),
    ],
)
def test_a_value_that_no_id_can_be_made_of_is_refused_by_its_place(value: Any, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Corpus("docs", MemorySource(), Nested(value))

    message = str(raised.value)
    assert message.startswith(f"strategy Nested: {said}")
    assert message.endswith("has no value that an id could be made of: declare `strategy_id`")


def test_a_synthesizer_and_a_gate_are_refused_when_they_are_given() -> None:
    with pytest.raises(IdentityError, match=r"^synthesizer functools.partial: .*\(a _thread.lock\).*`synthesizer_id`$"):
        with_synopsis(Chunked(), functools.partial(named, threading.Lock()))
    with pytest.raises(IdentityError, match=r"^gate .*\(a _thread.lock\) has no value.*: declare `gate_id`$"):
        with_synopsis(Chunked(), when=functools.partial(named, threading.Lock()))


def test_a_part_that_is_nested_too_deeply_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]

    with pytest.raises(IdentityError, match="nested too deeply"):
        producer_id(Nested(deep))


# -- state and declarations ------------------------------------------------------------------------------


class Lazy:
    size: ClassVar[int] = 5

    def __init__(self, text: str) -> None:
        self.text = text

    @functools.cached_property
    def words(self) -> list[str]:
        self._cached_lock = threading.Lock()
        return self.text.split()

    @functools.lru_cache  # noqa: B019
    def counted(self) -> int:
        return len(self.words)


def test_state_that_is_filled_in_use_does_not_count() -> None:
    lazy = Lazy("a b")
    before = producer_id(lazy)

    assert lazy.counted() == 2
    assert producer_id(lazy) == before


def test_a_setting_of_a_class_counts_by_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    before = producer_id(Lazy("a"))
    monkeypatch.setattr(Lazy, "size", 6)

    assert producer_id(Lazy("a")) != before


class Declared:
    strategy_id = "declared-1"

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.Lock()


class DerivedFromDeclared(Declared):
    pass


class ByProperty(Declared):
    @property
    def strategy_id(self) -> str:  # type: ignore[override]
        return f"by-property-{self.size}"


class Louder(Extractive):
    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return super().synthesize(text, metadata).upper()


class LouderById(Louder):
    id = "louder-1"  # type: ignore[assignment]


@dataclass(frozen=True)
class Rule:
    """A declared id is a value like others, unless it is declared to represent them."""

    id: str
    pattern: str


def test_a_declared_id_stands_for_what_has_no_value_and_parameters_count_beside_it() -> None:
    assert producer_id(Declared(1)).startswith("declared-1-")
    assert producer_id(Declared(1)) == producer_id(Declared(1)) != producer_id(Declared(2))
    assert producer_id(ByProperty(7)) == "by-property-7"
    with pytest.raises(IdentityError, match=r"attribute `lock`"):
        producer_id(DerivedFromDeclared(1))


def test_an_id_that_is_not_declared_to_be_one_stands_for_nothing() -> None:
    assert fingerprint(Rule("r", "a")) != fingerprint(Rule("r", "b"))


def test_an_id_does_not_stand_for_what_a_derived_class_changes() -> None:
    with pytest.raises(
        IdentityError, match=r"synthesizer Louder: its `id` is that of Extractive.*declare `id` in Louder"
    ):
        with_synopsis(Chunked(), Louder())

    assert with_synopsis(Chunked(), LouderById()).id == "louder-1"


@pytest.mark.parametrize("declared", ["", " ", None, 5])
def test_a_declared_id_that_is_no_text_is_refused(declared: Any) -> None:
    with pytest.raises(IdentityError, match=r"`id` is .*, expected a text"):
        with_synopsis(Chunked(), ScriptedSynthesizer(declared))


# -- code ------------------------------------------------------------------------------------------------

PACKAGE = {
    "__init__.py": "LIMIT = 1",
    "cut.py": """
        from .helpers import sized
        from . import marks
        class Cut:
            def decompose(self, artifact_id, raw, metadata):
                from .late import end
                return sized(raw), marks.MARK, end()
    """,
    "helpers.py": "from . import LIMIT\nimport own_flat\ndef sized(text): return text[:LIMIT]",
    "marks.py": "import own_package.cut\nMARK = '|'",
    "late.py": "import importlib\ndef end(): return importlib.import_module('own_package.deep.end').END",
    "deep/end.py": "END = '.'",
    "unused.py": "NOTHING = 1",
}
FLAT = "FLAT = 1"


def written(folder: Path, changes: Mapping[str, str] = types.MappingProxyType({}), flat: str = FLAT) -> Path:
    for name, text in {**PACKAGE, **changes}.items():
        path = folder / "own_package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    (folder / "own_flat.py").write_text(flat)
    return folder


def id_of_package(folder: Path) -> str:
    code = (
        "from own_package.cut import Cut; from findingaid.identity.fingerprints import producer_id;"
        " print(producer_id(Cut()))"
    )
    return in_another_process(folder, code, PYTHONDONTWRITEBYTECODE="1")


EDITS = {
    "__init__.py": "LIMIT = 2",
    "helpers.py": "from . import LIMIT\nimport own_flat\ndef sized(text): return text[LIMIT:]",
    "marks.py": "import own_package.cut\nMARK = '-'",
    "late.py": "import importlib\ndef end(): return importlib.import_module('own_package.deep.end').END * 2",
    "deep/end.py": "END = '!'",
}
"""Modules that the strategy uses, edited."""


def test_a_helper_in_another_module_counts(tmp_path: Path) -> None:
    before = id_of_package(written(tmp_path))

    for name, text in EDITS.items():
        assert id_of_package(written(tmp_path, {name: text})) != before, name
    assert id_of_package(written(tmp_path, flat="FLAT = 2")) != before
    no_matter = {"unused.py": "NOTHING = 2", "deep/end.py": "END = '.'  # ends"}
    assert id_of_package(written(tmp_path, no_matter)) == before


def test_a_module_counts_as_it_runs_in_a_process_that_lives_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "own_living.py"
    path.write_text("SIZE = 1\ndef cut(text): return text[:SIZE]\n")
    living = importlib.import_module("own_living")
    first = source_hash("own_living")

    path.write_text("SIZE = 2\ndef cut(text): return text[:SIZE]\n# longer\n")
    edited = source_hash("own_living")
    importlib.reload(living)
    reloaded = source_hash("own_living")
    monkeypatch.setattr(living, "SIZE", 3)

    assert first == edited != reloaded
    assert source_hash("own_living") not in {first, reloaded}


def test_a_file_edited_before_its_module_is_looked_at_is_not_taken_for_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "own_edited.py"
    code = "from pathlib import Path; import own_edited; {}; import findingaid.identity.code as c"
    code += "; print(c.source_hash('own_edited'))"

    def hash_running(edit: str) -> str:
        path.write_text("SIZE = 1\ndef cut(text): return text[:SIZE]")
        return in_another_process(tmp_path, code.format(f"Path('own_edited.py').write_text({edit!r})"))

    edits = ["SIZE = 2\ndef cut(text): return text[:SIZE]", "SIZE = 1\ndef cut(text): return text"]
    running = list(map(hash_running, edits))
    for edit, hashed in zip(edits, running, strict=True):
        path.write_text(edit)
        assert hashed != in_another_process(tmp_path, code.format("pass"))


TYPED = """
from findingaid.identity.fingerprints import producer_id
import functools, re
SIZE = {size}
PATTERN = re.compile({pattern!r})
def helper(text):
    return [part[:SIZE] for part in PATTERN.split(text)]
class Cut:
    def decompose(self, artifact_id, raw, metadata):
        return [line for line in helper(raw)]
def whole(text, metadata):
    return helper(text)
print(producer_id(Cut()), producer_id(functools.partial(whole, "a")))
"""


def typed(folder: Path, size: int = 5, pattern: str = "a", *more: tuple[str, str]) -> list[str]:
    code = TYPED.format(size=size, pattern=pattern)
    for old, new in more:
        code = code.replace(old, new)
    return in_another_process(folder, code).split()


def test_code_that_has_no_file_counts_as_it_is_compiled_with_the_globals_that_it_reads(tmp_path: Path) -> None:
    first = typed(tmp_path)

    assert typed(tmp_path) == first
    for other in (typed(tmp_path, 6), typed(tmp_path, 5, "b"), typed(tmp_path, 5, "a", ("[:SIZE]", "[SIZE:]"))):
        assert all(one != two for one, two in zip(first, other, strict=True))


def test_a_function_that_is_redefined_has_another_id() -> None:
    def cut(size: int) -> Any:  # as a notebook does
        space: dict[str, Any] = {"__name__": "__main__", "SIZE": size}
        exec("def helper(t): return t[:SIZE]\ndef cut(t, m): return helper(t)", space)
        return space["cut"]

    assert Custom(cut(1)).id == Custom(cut(1)).id != Custom(cut(2)).id


# -- shipped components ----------------------------------------------------------------------------------

NEEDED: dict[str, dict[str, Any]] = {
    "custom": {"function": "tests.test_identity:beginning", "name": "mine"},
    "openai": {"model": "m"},
    "endpoint": {"base_url": "http://127.0.0.1/v1", "model": "m"},
    "threshold": {"share": 0.5},
}
FAMILIES = (
    *(STRATEGIES, EXTRACTORS, SYNTHESIZERS, SUMMARIZERS, EMBEDDERS, CLAIM_EXTRACTORS, NODE_PRODUCERS),
    *(RERANKERS, SELECTORS, REWRITERS),
)
SHIPPED = [(registry, name) for registry in FAMILIES for name in registry.known()]


def made(registry: Any, name: str) -> Any:
    size = {"dimensions": 3} if (registry, name) == (EMBEDDERS, "openai") else {}  # else an endpoint is asked
    return registry.create({registry.key: name, **NEEDED.get(name, {}), **size}, name)


@pytest.mark.parametrize(("registry", "name"), SHIPPED, ids=lambda value: getattr(value, "family", value))
def test_the_id_of_a_shipped_part_survives_a_move_of_its_module(
    registry: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = made(registry, name)
    before = producer_id(replace(part))  # its types are resolved when it is first made in Python
    parts = [part, *(value for value in vars(part).values() if hasattr(type(value), "__dataclass_fields__"))]
    for cls in {base for one in parts for base in type(one).__mro__ if base.__module__.startswith("findingaid.")}:
        move(cls, monkeypatch)

    after = producer_id(replace(part))

    assert after == before
    assert "findingaid" not in before


def test_a_gate_that_ships_survives_a_move_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [(producer_id(gate), with_synopsis(Chunked(), when=name).id) for name, gate in GATES.items()]
    for gate in GATES.values():
        move(gate, monkeypatch)

    assert [(producer_id(gate), with_synopsis(Chunked(), when=name).id) for name, gate in GATES.items()] == before


def move(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a class or a function one of another module of findingaid."""
    name = f"findingaid.elsewhere.{code.__module__.replace('.', '_')}"
    moved = sys.modules.get(name) or types.ModuleType(name)
    vars(moved).update({code.__qualname__: code})
    monkeypatch.setitem(sys.modules, moved.__name__, moved)
    monkeypatch.setattr(code, "__module__", moved.__name__)


def test_the_ids_of_shipped_strategies_and_extractors_are_these() -> None:
    """A change of one cuts every index of it anew: raise the `version` of the part that cuts otherwise instead."""
    shipped = [
        *(made(STRATEGIES, name) for name in STRATEGIES.known()),
        *(made(EXTRACTORS, n) for n in EXTRACTORS.known()),
    ]

    assert [producer_id(part) for part in (*shipped, CombinedExtractor())] == [
        "Chunked-4919a1d1ce90",
        "ClaudeSession-631de251aec2",
        "ClaudeTurn-270781608a27",
        "Package-24ec2130da0d",
        "Skill-bcc54975f21b",
        "WholeText-ce7d71a21154",
        "WithSynopsis-5e39e388991e",
        "fields-4b11ef34db01",
        "links-2-289956d96661",
        "together-e0c61474471f",
    ]


def test_the_ids_of_shipped_producers_are_these() -> None:
    """A change of one costs every user its calls anew: raise the `version` of the producer that writes otherwise."""
    families = (SYNTHESIZERS, SUMMARIZERS, CLAIM_EXTRACTORS, NODE_PRODUCERS)

    assert [made(family, name).id for family in families for name in family.known() if name != "custom"] == [
        "anchored-1-extractive-v3",
        "extractive-3-v6",
        "none",
        "openai-m-455a34e6f9f8",
        "extractive-v3",
        "openai-m-25de0af94fe3",
        "extractive-15-400-v5",
        "openai-m-d7ab3d88621e",
        "extractive-5-v1",
        "openai-m-e991ac748a90",
    ]


def test_what_shipped_parts_make_of_these_texts_changes_only_with_their_ids() -> None:
    """Where it fails, raise the `version` of the part, since indexes keep what an equal id has made."""
    files = sorted(path for path in DATA.glob("ha*/**/*.*") if path.suffix in {".md", ".txt"})
    texts = [path.read_text("utf-8") for path in [*files, *sorted((DATA / "household").rglob("*.md"))]]
    turns = [Segment(place, text, text) for place, text in enumerate(texts)]

    def hash_of(made: Iterable[object]) -> str:
        return content_hash([str(each) for each in made])[:12]

    assert {
        Extractive().id: hash_of(Extractive().synthesize(text, {}) for text in texts),
        ExtractiveClaims().id: hash_of(ExtractiveClaims().extract(text, {}) for text in texts),
        ExtractiveSummarizer().id: hash_of([ExtractiveSummarizer().summarize(turns, None)]),
        f"Chunked {Chunked.version}": hash_of(Chunked(chunk_size=400).decompose("a.md", text, {}) for text in texts),
    } == {
        "extractive-3-v6": "e8869db903a7",
        "extractive-15-400-v5": "647bdbf25a8a",
        "extractive-v3": "f8252525fcfb",
        "Chunked 13": "502a0c67be19",
    }


# -- through an index ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parted:
    pattern: re.Pattern[str]
    clean: Callable[[str], str] = field(default=str.strip)

    def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any]) -> SurfacePlan:
        return SurfacePlan({}, [Surface("part", part) for part in map(self.clean, self.pattern.split(raw)) if part])


def test_a_changed_regular_expression_of_a_strategy_cuts_again(tmp_path: Path) -> None:
    source = MemorySource({"a.md": "one;two,three"})

    def indexed(pattern: str) -> tuple[int, set[str]]:
        corpora = {"docs": Corpus("docs", source, Parted(re.compile(pattern)))}
        aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), corpora)
        report = aid.index().corpora["docs"]
        return report.changed, {record.text for record in aid.show("a.md").records}

    assert indexed(";") == (0, {"one", "two,three"})
    assert indexed(",") == (1, {"one;two", "three"})


def test_two_partials_as_synthesizers_of_two_corpora_write_their_own_synopses(tmp_path: Path) -> None:
    source = MemorySource({"a.md": "The same text."})
    corpora = {
        name: Corpus(name, source, with_synopsis(WholeText(), functools.partial(named, name)))
        for name in ("one", "two")
    }
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), corpora)

    aid.index()

    texts = {(hit.corpus, hit.text) for hit in aid.search("same", surfaces=["synopsis"])}
    assert texts == {("one", "one: The."), ("two", "two: The.")}


def test_a_configuration_names_the_key_of_a_part_that_has_no_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = """
        import threading
        class Locked:
            def __init__(self): self.lock = threading.Lock()
            def decompose(self, artifact_id, raw, metadata): ...
    """
    (tmp_path / "own_locked.py").write_text(textwrap.dedent(module))
    config = tmp_path / "findingaid.yaml"
    config.write_text(
        'store: index\ncorpora: {docs: {source: {kind: files, root: .}, strategy: {name: "own_locked:Locked"}}}'
    )
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError) as raised:
        load(config)

    assert str(raised.value) == (
        f"{config}: corpora.docs: strategy Locked: attribute `lock` (a _thread.lock) has no value"
        " that an id could be made of: declare `strategy_id`"
    )
