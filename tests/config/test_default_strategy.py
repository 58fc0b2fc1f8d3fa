"""A corpus without a strategy uses the one that fits the payloads of its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import findingaid
from findingaid.errors import ConfigError, DecomposeError
from findingaid.sources import SOURCES, default_strategy
from findingaid.strategies import STRATEGIES
from findingaid.strategies.chunked import Chunked
from tests.conftest import text_about

CLAUDE = '{"type":"user","sessionId":"s","message":{"role":"user","content":"Where is the ledger?"}}\n'


def opened(folder: Path, corpus: dict[str, Any]) -> findingaid.FindingAid:
    said = {"store": "index", "embedder": {"kind": "hash"}, "corpora": {"of": corpus}}
    (folder / "findingaid.yaml").write_text(yaml.safe_dump(said))
    return findingaid.open(folder / "findingaid.yaml")


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ({"kind": "packages", "root": "repos"}, {"description", "readme"}),
        ({"kind": "skills", "roots": ["skills"]}, {"capability"}),
        ({"kind": "sessions", "root": "sessions"}, {"user_prompt"}),
        ({"kind": "records", "path": "rows.jsonl", "text": "note"}, {"chunk"}),
        ({"kind": "files", "root": "notes"}, {"chunk"}),
    ],
)
def test_a_source_alone_is_a_corpus_whose_artifacts_are_all_indexed(
    source: dict[str, Any], kinds: set[str], tmp_path: Path
) -> None:
    files = {
        "repos/tool/pyproject.toml": "[project]\nname = 'tool'\ndescription = 'Cuts.'\nreadme = 'README.md'\n",
        "repos/tool/README.md": text_about("ledger"),
        "skills/forms/SKILL.md": "---\nname: forms\ndescription: Fill in a form.\n---\nOpen the form.\n",
        "sessions/one.jsonl": CLAUDE,
        "rows.jsonl": '{"id": 1, "note": "a row"}\n',
        "notes/a.md": text_about("ledger"),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    aid = opened(tmp_path, {"source": source})

    assert aid.index().ok
    assert {hit.surface_kind for hit in aid.search("ledger form row cuts", k=20)} == kinds


def test_a_strategy_without_a_name_sets_parameters_of_the_default(tmp_path: Path) -> None:
    source = {"kind": "files", "root": "."}

    aid = opened(tmp_path, {"source": source, "strategy": {"chunk_size": 90, "overlap": 0}})

    assert aid.corpora["of"].strategy == Chunked(chunk_size=90, overlap=0)
    with pytest.raises(ConfigError, match=r"corpora.of.strategy.embed_deps: unknown key"):
        opened(tmp_path, {"source": source, "strategy": {"embed_deps": True}})


def test_every_default_strategy_can_be_built() -> None:
    for kind in SOURCES.known():
        STRATEGIES.create(default_strategy(SOURCES.member(kind, "")), kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("payload", "remedy"),
    [
        ({"name": "x", "readme": "r"}, "it has name, readme: set text_key, or the strategy Package"),
        ({"name": "x", "description": "d"}, "it has name, description: set text_key, or the strategy Skill"),
        ({"turns": []}, "it has turns: set text_key, or the strategy ClaudeSession"),
        ({"note": "n"}, "it has note: set text_key"),
    ],
)
def test_the_error_about_a_payload_names_the_strategies_that_fit_it(payload: dict[str, Any], remedy: str) -> None:
    with pytest.raises(DecomposeError) as caught:
        Chunked().decompose("a", payload, {})

    assert str(caught.value).endswith(remedy)
