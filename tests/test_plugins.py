"""External strategies, sources, synthesizers and embedders, by import path and by entry point."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from findingaid import ConfigError
from findingaid.config.loading import load
from findingaid.embedding import EMBEDDERS
from findingaid.embedding.minilm import MiniLM
from findingaid.identity.fingerprints import producer_id
from findingaid.registry import REGISTRIES
from findingaid.sources import SOURCES
from findingaid.sources.files import Files
from findingaid.strategies import (
    STRATEGIES,
    Chunked,
    Package,
    WholeText,
    WithSynopsis,
    bound,
    strategy_from_spec,
    strategy_to_spec,
)
from findingaid.strategies.claude import ClaudeSession, ClaudeTurn
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.synthesis import SYNTHESIZERS

MODULE = """
from __future__ import annotations
from dataclasses import dataclass, field
from pathlib import Path
from findingaid import Surface, SurfacePlan
from findingaid.embedding.hashing import HashEmbedder
from findingaid.sources.files import Files
from findingaid.strategies import NestedStrategy
from findingaid.synthesis.extractive import Extractive
from findingaid.strategies.whole_text import WholeText

def parts(text):
    return text.split("|")

@dataclass(frozen=True)
class Lines:
    kind: str = "line"
    least: int = 1
    def decompose(self, artifact_id, raw, metadata):
        return SurfacePlan(metadata, [Surface(self.kind, p) for p in parts(raw) if len(p.strip()) >= self.least])

@dataclass(frozen=True)
class Both:
    inner: NestedStrategy
    more: tuple[NestedStrategy, ...] = ()
    marks: list[str] = field(default_factory=list)
    def decompose(self, artifact_id, raw, metadata):
        plans = [s.decompose(artifact_id, raw, metadata) for s in (self.inner, *self.more)]
        return SurfacePlan(metadata, [surface for plan in plans for surface in plan.surfaces])

class Plain:
    def __init__(self, size=3):
        if size > 100:
            raise RuntimeError("too\\nlong")
        self.size = size
    def decompose(self, artifact_id, raw, metadata):
        return SurfacePlan(metadata, [Surface("start", raw[:self.size])])

class Outer:
    @dataclass(frozen=True)
    class Inner(WholeText):
        pass

class OwnFiles(Files): ...
class OwnExtractive(Extractive): ...
class OwnEmbedder(HashEmbedder): ...
class Nothing: ...

@dataclass(frozen=True)
class Odd:
    thing: Nothing = None
    def decompose(self, artifact_id, raw, metadata): ...

NUMBER = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of its own for each test, so that none is imported from before."""
    (tmp_path / "own_parts.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    return "own_parts"


def distribution(folder: Path, name: str, entries: str) -> None:
    """Metadata that pip leaves of an installed distribution."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(entries))


@pytest.mark.parametrize("name", ["own_parts:Lines", "own_parts.Lines"])
def test_a_strategy_by_import_path_takes_its_parameters(module: str, name: str) -> None:
    strategy = STRATEGIES.create({"name": name, "least": "2", "params": {"kind": "part"}}, "strategy")

    surfaces = strategy.decompose("a", "one|x|two", {}).surfaces
    assert [(s.kind, s.text) for s in surfaces] == [("part", "one"), ("part", "two")]


def test_a_class_within_a_class_and_one_that_is_no_dataclass(module: str) -> None:
    inner = STRATEGIES.create({"name": f"{module}:Outer.Inner"}, "strategy")
    plain = STRATEGIES.create({"name": f"{module}:Plain", "size": 2}, "strategy")

    assert inner.decompose("a", "whole", {}).surfaces[0].text == "whole"
    assert plain.decompose("a", "whole", {}).surfaces[0].text == "wh"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "Line"}, "s.name: unknown strategy 'Line'. Known: Chunked, "),
        ({"name": "no_such.module:X"}, "s.name: 'no_such.module:X' cannot be imported: ModuleNotFoundError: No module"),
        ({"name": "own_parts:Missing"}, "'own_parts:Missing' cannot be imported: AttributeError: module 'own_parts'"),
        ({"name": "own_broken:X"}, "'own_broken:X' cannot be imported: SyntaxError: "),
        ({"name": "own_exits:X"}, "'own_exits:X' cannot be imported: ZeroDivisionError: division by zero"),
        ({"name": "own_parts:NUMBER"}, "s.name: 'own_parts:NUMBER' is a int, expected a class"),
        ({"name": "own_parts:Nothing"}, "s.name: 'own_parts:Nothing' is not a valid strategy: it has no decompose"),
        ({"name": "own_parts:"}, "s.name: unknown strategy 'own_parts:'"),
        ({"name": "own_parts:Lines", "most": 1}, "s.most: unknown key. Known: kind, least"),
        ({"name": "own_parts:Lines", "least": "x"}, "s.least: expected a whole number"),
        ({"name": "own_parts:Plain", "most": 1}, "s: Plain: TypeError: "),
        ({"name": "own_parts:Plain", "size": 101}, "s: Plain: RuntimeError: too long"),
        ({"name": "own_parts:Odd"}, "s: the types of Odd's parameters cannot be checked: decorate it"),
        ({"name": "own_parts:Both"}, "s.inner: missing, but required"),
        ({"name": "own_parts:Both", "inner": 3}, "s.inner: "),
        ({"name": "own_parts:Both", "inner": {"name": "Chunk"}}, "s.inner.name: unknown strategy 'Chunk'"),
        (
            {"name": "own_parts:Both", "inner": {"name": "own_parts:Both", "inner": {"name": "Chunked", "size": 1}}},
            "s.inner.inner.size: unknown key. Known: max_tokens",
        ),
        ({"name": "Chunked", "params": [1]}, "s.params: expected keys and values, got [1]"),
        ({}, "s.name: missing. Known: Chunked, "),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(
    tmp_path: Path, module: str, spec: dict[str, Any], message: str
) -> None:
    (tmp_path / "own_broken.py").write_text("def (")
    (tmp_path / "own_exits.py").write_text("1 / 0")

    with pytest.raises(ConfigError) as raised:
        strategy_from_spec(spec, "s")

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_specs_give_custom_and_nested_strategies_back(module: str) -> None:
    spec = {
        "name": f"{module}:Both",
        "params": {
            "inner": {"name": "Chunked", "params": {"chunk_size": 9}},
            "more": [{"name": "own_parts:Lines", "params": {"least": 2}}, {"name": "WholeText", "params": {}}],
        },
    }

    strategy = strategy_from_spec(spec)

    assert strategy_to_spec(strategy) == spec
    assert strategy_from_spec(json.loads(json.dumps(strategy_to_spec(strategy)))) == strategy
    assert producer_id(strategy) == producer_id(strategy_from_spec(strategy_to_spec(strategy)))


def test_what_no_spec_can_say_is_an_error(module: str) -> None:
    plain = STRATEGIES.create({"name": f"{module}:Plain"}, "strategy")

    with pytest.raises(ConfigError, match="own_parts:Plain has no spec: only a dataclass"):
        strategy_to_spec(plain)
    gate = WithSynopsis(when=lambda _: True, when_id="all")
    with pytest.raises(ConfigError, match=r"WithSynopsis\.when: a spec cannot contain a function"):
        strategy_to_spec(gate)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Chunked(chunk_size=-5), "Chunked.chunk_size: must be greater than 0, got -5"),
        (lambda: Chunked(max_tokens=-5), "Chunked.max_tokens: must be greater than 0, got -5"),
        (lambda: Chunked(1200), "Chunked: 1200 has no name: give each parameter by its name. Known: max_tokens, "),
        (lambda: Package(1500, 200), "Package: 1500 has no name: give each parameter by its name. Known: max_tokens, "),
        (
            lambda: WholeText("body"),
            "WholeText: 'body' has no name: give each parameter by its name. Known: text_key, ",
        ),
        (
            lambda: ClaudeTurn(True),
            "ClaudeTurn: True has no name: give each parameter by its name. Known: include_full",
        ),
        (
            lambda: ClaudeSession(True),
            "ClaudeSession: True has no name: give each parameter by its name. Known: include",
        ),
        (lambda: replace(Chunked(), overlap=-1), "Chunked.overlap: must be greater than or equal to 0, got -1"),
        (lambda: Package(chunk_size=0), "Package.chunk_size: must be greater than 0, got 0"),
        (
            lambda: Package(deps_template=str.upper),
            "Package.deps_template: expected a text, got <method",
        ),
        (lambda: Files(), "Files.root: missing, but required"),
        (lambda: with_synopsis(3), "WithSynopsis.inner: must be an instance of Strategy, got 3"),
    ],
)
def test_a_component_made_in_python_is_checked_as_in_a_configuration(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make()
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_every_shipped_component_is_checked_when_it_is_made_in_python() -> None:
    for registry in REGISTRIES:
        for name in registry.known():
            member: Any = registry.member(name, registry.family)
            with pytest.raises(ConfigError, match=rf"^{member.__name__}\.\w+: (unknown key|missing, but required)"):
                member(nonsense=1)


def test_what_a_strategy_needs_is_imported_from_one_place() -> None:
    import findingaid.strategies

    assert {*STRATEGIES.known(), "text_of", "NestedStrategy"} <= set(findingaid.strategies.__all__)
    for name in findingaid.strategies.__all__:
        assert getattr(findingaid.strategies, name) is not None


def test_nested_strategies_count_as_the_embedder_does(module: str) -> None:
    spec = {"name": f"{module}:Both", "inner": {"name": "Chunked"}, "more": [{"name": "Chunked", "max_tokens": 8}]}
    embedder = MiniLM()

    strategy: Any = bound(STRATEGIES.create(spec, "strategy"), embedder)

    assert strategy.inner == Chunked().for_embedder(embedder)
    assert strategy.more == (Chunked(max_tokens=8).for_embedder(embedder),)
    assert bound(WholeText(), embedder) == WholeText()


def test_every_family_takes_import_paths(tmp_path: Path, module: str) -> None:
    assert type(SOURCES.create({"kind": f"{module}:OwnFiles", "root": "."}, "source", tmp_path)).__name__ == "OwnFiles"
    assert type(SYNTHESIZERS.create({"kind": f"{module}:OwnExtractive"}, "synthesizer")).__name__ == "OwnExtractive"
    assert EMBEDDERS.create({"kind": f"{module}:OwnEmbedder", "dim": 8}, "embedder").dim == 8
    with pytest.raises(
        ConfigError, match="'own_parts:Nothing' is not a valid embedder: it has no count_tokens, dim, embed"
    ):
        EMBEDDERS.create({"kind": f"{module}:Nothing"}, "embedder")


def test_an_installed_distribution_adds_names_to_every_family(tmp_path: Path, module: str) -> None:
    distribution(
        tmp_path,
        "own_plugin",
        """
        [findingaid.strategies]
        Lines = own_parts:Lines
        [findingaid.sources]
        own = own_parts:OwnFiles
        [findingaid.synthesizers]
        own = own_parts:OwnExtractive
        [findingaid.embedders]
        own = own_parts:OwnEmbedder
        """,
    )
    file = tmp_path / "findingaid.yaml"
    corpus = {"source": {"kind": "own", "root": "."}, "strategy": {"name": "Lines", "least": 2}, "synopsis": True}
    file.write_text(
        yaml.safe_dump({"embedder": {"kind": "own"}, "synthesizer": {"kind": "own"}, "corpora": {"docs": corpus}})
    )

    config = load(file)

    strategy: Any = config.corpora["docs"].strategy
    made = [config.corpora["docs"].source, strategy.inner, config.embedder, strategy.synthesizer]
    assert [type(x).__name__ for x in made] == ["OwnFiles", "Lines", "OwnEmbedder", "OwnExtractive"]
    with pytest.raises(ConfigError, match=r"unknown strategy 'Line'\. Known: Chunked, ClaudeSession, .*Lines"):
        STRATEGIES.create({"name": "Line"}, "strategy")


def test_a_name_that_two_distributions_give_is_refused(tmp_path: Path, module: str) -> None:
    distribution(tmp_path, "first", "[findingaid.strategies]\nLines = own_parts:Lines\n")
    distribution(tmp_path, "second", "[findingaid.strategies]\nLines = own_parts:Plain\n")

    with pytest.raises(
        ConfigError, match="provided by first and second: name one by its import path, own_parts:Lines or"
    ):
        STRATEGIES.create({"name": "Lines"}, "strategy")
