"""Contract of every strategy, for any text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from findingaid import FindingAid, Strategy
from findingaid.embedding.minilm import MiniLM
from findingaid.errors import ConfigError, DecomposeError
from findingaid.identity.fingerprints import producer_id
from findingaid.model import Raw, Surface, SurfacePlan
from findingaid.strategies import STRATEGIES, bound, strategy_from_spec, strategy_to_spec
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.claude import ClaudeSession, ClaudeTurn
from findingaid.strategies.package import Package
from findingaid.strategies.skill import Skill
from findingaid.strategies.whole_text import WholeText
from findingaid.strategies.with_synopsis import WithSynopsis
from findingaid.testing import MemorySource
from findingaid.text.structure import Headings

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
MARKDOWN = st.lists(
    st.sampled_from(["# Head\n", "word ", "\n\n", "- item\n", "```\ncode\n```\n", "é\u0301🗂 ", "\x00", "|a|b|\n"]),
    max_size=60,
).map("".join)
PYTHON = st.lists(
    st.sampled_from(
        [
            "def f(x):\n    return x\n",
            "\r",
            "class A:\n    def g(self): ...\n    @h\n    def h(self):\n        pass\n",
            "# note\n",
            "\n\n",
            "s = 'é\\d🗂'\n",
            "\x0c",
            "if x:\n  pass\n",
            "@d\n",
            "async def g(): pass\n",
            "\\\n",
            "class",
        ]
    ),
    max_size=40,
).map("".join)
SEEN = MiniLM()

EVERY: list[Any] = [
    WholeText(),
    Chunked(chunk_size=40, overlap=10),
    Chunked(chunk_size=1, overlap=0),
    Chunked(max_tokens=8).for_embedder(SEEN),
    Package(chunk_size=40, overlap=0),
    Package(max_tokens=8, overlap=2, embed_deps=True).for_embedder(SEEN),
    Skill(),
    ClaudeTurn(),
    ClaudeTurn(include_full=True),
    ClaudeTurn(cut=WholeText()),
    ClaudeSession(include_full=True),
    ClaudeSession(include_full=True, cut=Chunked(chunk_size=40, overlap=10)),
]


def raw_for(strategy: Strategy, text: str) -> Raw:
    if isinstance(strategy, Package):
        return {
            "name": "a package",
            "description": text[:50],
            "readme": text,
            "deps": ["numpy"],
            "readme_type": "text/markdown",
        }
    if isinstance(strategy, Skill):
        return {"name": text[:20], "description": text, "body": text}
    if isinstance(strategy, ClaudeTurn):
        return turn_of(text)
    if isinstance(strategy, ClaudeSession):
        return {"session": "s1", "project": "p", "turns": [turn_of(text), {}, turn_of(text)]}
    return text


def turn_of(text: str) -> dict[str, Any]:
    return {"user_prompt": text, "assistant_summary": text, "assistant_full": text, "tools": ["Bash"], "model": "m"}


def decompose(strategy: Strategy, text: str, media_type: str) -> SurfacePlan:
    return strategy.decompose("a", raw_for(strategy, text), {"media_type": media_type})


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
@pytest.mark.parametrize("media_type", ["text/plain", "text/markdown", "text/x-python"])
@settings(max_examples=15)
@given(text=TEXTS | MARKDOWN | PYTHON)
@example("")
@example(" \n\t\x00 ")
@example("\ufeffmark")
@example("a" * 300)
def test_spans_give_back_the_text_no_surface_is_blank_and_the_plan_is_the_same_twice(
    strategy: Strategy, media_type: str, text: str
) -> None:
    plan = decompose(strategy, text, media_type)

    assert plan == decompose(strategy, text, media_type)
    for surface in plan.surfaces:
        assert surface.text.strip()
        if surface.span:
            start, end = surface.span
            assert text[start:end] == surface.text
    for (_, field), spans in spans_of_fields(plan).items():
        assert spans == sorted(spans), field


def spans_of_fields(plan: SurfacePlan) -> dict[Any, list[tuple[int, int]]]:
    """Return the spans within each text of an artifact, in plan order."""
    spans: dict[Any, list[tuple[int, int]]] = {}
    for surface in plan.surfaces:
        if surface.span:
            key = (surface.metadata.get("turn"), surface.metadata.get("field"))
            spans.setdefault(key, []).append(surface.span)
    return spans


@pytest.mark.parametrize("media_type", ["text/plain", "text/markdown", "text/x-python"])
@settings(max_examples=40)
@given(text=TEXTS | MARKDOWN | PYTHON)
def test_every_word_is_in_some_chunk(media_type: str, text: str) -> None:
    covered: set[int] = set()
    for surface in Chunked(chunk_size=40, overlap=10).cut(text, media_type):
        assert surface.span
        covered.update(range(*surface.span))

    assert not [i for i, c in enumerate(text) if i not in covered and c.isalnum()]


@settings(max_examples=25)
@given(text=TEXTS | MARKDOWN | PYTHON)
def test_no_chunk_is_longer_than_its_limit(text: str) -> None:
    chunked = Chunked(max_tokens=8, overlap=2).for_embedder(SEEN)

    # A single character may have several tokens and is never split.
    assert all(SEEN.count_tokens(s.text) <= 8 or len(s.text) == 1 for s in chunked.cut(text, "text/markdown"))
    assert all(len(s.text) <= 40 for s in Chunked(chunk_size=40).cut(text))
    assert all(len(s.text) <= 40 for s in Chunked(chunk_size=40).cut(text, "text/x-python"))


@pytest.mark.parametrize(
    "text", ["# Head\n\nSome words here.\n\n" * 90, "a line of words\n\n" * 120, "words " * 400, "x" * 2500]
)
def test_a_long_text_is_cut_in_windows_without_loss(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Check that no character between chunks is lost where one window ends and the next begins."""
    monkeypatch.setattr("findingaid.text.splitting.WINDOW", 500)

    chunks = Chunked(chunk_size=100, overlap=0).cut(text, "text/markdown")

    assert all(chunk.span and text[slice(*chunk.span)] == chunk.text for chunk in chunks)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.split())


def test_chunks_are_counted_within_their_kind() -> None:
    plan = Package(chunk_size=30, overlap=0, embed_deps=True).decompose(
        "numpy", {"name": "numpy", "description": "arrays", "readme": "word " * 20, "deps": ["one", "two"]}, {}
    )

    assert [surface.kind for surface in plan.surfaces] == [
        "description",
        "readme",
        "readme",
        "readme",
        "readme",
        "deps",
    ]
    assert [surface.metadata.get("chunk_index") for surface in plan.surfaces] == [None, 0, 1, 2, 3, None]
    assert {surface.metadata["n_chunks"] for surface in plan.surfaces if surface.kind == "readme"} == {4}
    assert plan.surfaces[-1].text == "Depends on: one, two"
    assert plan.filter_fields == {"name": "numpy", "owner": "", "deps": ["one", "two"], "has_readme": True}


@pytest.mark.parametrize("strategy", [s for s in EVERY if getattr(s, "tokenizer", None) is None], ids=repr)
def test_a_spec_gives_the_strategy_back(strategy: Strategy) -> None:
    assert strategy_from_spec(strategy_to_spec(strategy)) == strategy
    assert strategy_from_spec(None) is None


@pytest.mark.parametrize("name", STRATEGIES.known())
def test_every_shipped_strategy_has_an_identity_of_its_own(name: str) -> None:
    default = STRATEGIES.create({"name": name}, "strategy")

    assert producer_id(default) == producer_id(STRATEGIES.create({"name": name}, "strategy"))
    assert producer_id(default).startswith(f"{name}-")


SKILL = """---
name: pdf
description: "Reads forms: fills them, too"
---
# How

The body.
"""


@pytest.mark.parametrize(
    "raw", [SKILL, SKILL.replace("\n", "\r\n"), {"name": "pdf", "description": "Reads forms: fills them, too"}]
)
def test_a_skill_is_its_name_and_description(raw: Raw) -> None:
    artifact_id = "skills/office/pdf/SKILL.md" if isinstance(raw, str) else "skills/office/pdf"

    plan = Skill().decompose(artifact_id, raw, {"bytes": 3})

    assert [(s.kind, s.text) for s in plan.surfaces] == [("capability", "pdf: Reads forms: fills them, too")]
    assert plan.filter_fields == {"bytes": 3, "name": "pdf", "parent": "office"}
    assert "body" not in Skill().text(raw)


@pytest.mark.parametrize(
    ("front", "name", "parent"),
    [("description: d", "pdf", "office"), ("name: 7\nparent: docs", "7", "docs"), ("x: 1", "pdf", "office")],
)
def test_what_a_skill_does_not_say_its_folders_do(front: str, name: str, parent: str) -> None:
    plan = Skill().decompose("office/pdf/SKILL.md", f"---\n{front}\n---\n", {})

    assert plan.filter_fields == {"name": name, "parent": parent}
    assert plan.surfaces[0].text.startswith(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# No front matter", "line 1: the front matter is missing: begin with a line ---"),
        ("---\nname: a\n", "line 1: the front matter is never closed by a line ---"),
        (
            "---\nname: a\ndescription: Use when: asked\n---\n",
            "line 3: the front matter is no YAML: mapping values are",
        ),
        ("---\njust words\n---\n", "line 2: the front matter is no mapping"),
        ("---\nname: \x00\n---\n", "is no YAML"),
    ],
)
def test_a_skill_that_cannot_be_read_says_why_in_one_line(text: str, message: str) -> None:
    with pytest.raises(DecomposeError, match=message) as raised:
        Skill().decompose("a/SKILL.md", text, {})

    assert "\n" not in str(raised.value)


def test_a_turn_has_a_surface_for_either_side() -> None:
    turn = {"user_prompt": "Why?", "assistant_summary": "Because.", "assistant_full": "Hm. Because.", "tools": ["Bash"]}
    turn |= {"session": "s", "project": "p", "time": "2026-01-02T03:04:05Z", "model": "m"}

    plan = ClaudeTurn().decompose("s/0", turn, {})

    assert [(s.kind, s.text) for s in plan.surfaces] == [("user_prompt", "Why?"), ("assistant_summary", "Because.")]
    assert plan.filter_fields == {k: turn[k] for k in ("session", "project", "time", "model", "tools")}
    full = ClaudeTurn(include_full=True).decompose("s/0", turn, {})
    assert [s.kind for s in full.surfaces] == ["user_prompt", "assistant_summary", "assistant_full"]
    assert ClaudeTurn().text(turn) == "Why?\n\nBecause."


IR_TURN = {
    "session_id": "s1", "session_title": "Keys", "project": "shop", "cwd": "/shop", "git_branch": "main",
    "timestamp": "2026-01-02T03:04:05Z", "model": "m", "has_tool_use": False,
}  # fmt: skip
"""Filter fields of a turn by the names of ir 0.1.61."""


def test_the_filter_fields_of_irs_turns_are_kept_by_their_names() -> None:
    texts = {"user_prompt": "Why?", "assistant_summary": "Because.", "record_type": "turn_pair", "n_messages": 2}

    turn = ClaudeTurn().decompose("s/0", {**texts, **IR_TURN}, {})
    session = ClaudeSession().decompose("s", {**IR_TURN, "turns": [{**texts, **IR_TURN}]}, {})

    assert turn.filter_fields == IR_TURN
    assert session.filter_fields.items() >= {(name, IR_TURN[name]) for name in ("session_id", "cwd", "git_branch")}
    assert session.surfaces[0].metadata.items() >= {("timestamp", IR_TURN["timestamp"]), ("has_tool_use", False)}


LONG = "# Basket\n\n" + "Some words on it. " * 6 + "\n\n# Till\n\n" + "Other words on it. " * 6


def test_what_was_said_at_length_is_cut_and_nothing_of_it_is_lost() -> None:
    cut = Chunked(chunk_size=80, overlap=0)

    plan = ClaudeSession(cut=cut).decompose("s", {"turns": [{"user_prompt": "Why?", "assistant_summary": LONG}]}, {})

    prompt, *said = plan.surfaces
    assert (prompt.text, prompt.span, prompt.metadata) == ("Why?", (0, 4), {"turn": 0, "field": "user_prompt"})
    assert {piece.kind for piece in said} == {"assistant_summary"}
    assert [piece.metadata["chunk_index"] for piece in said] == list(range(len(said)))
    assert said[-1].metadata["headings"] == ["Till"]
    assert all(piece.metadata["turn"] == 0 and LONG[slice(*piece.span or ())] == piece.text for piece in said)
    assert "".join("".join(piece.text.split()) for piece in said) == "".join(LONG.split())
    assert ClaudeSession(cut=cut).text({"turns": [{"assistant_summary": LONG}]}) == LONG


def test_by_default_a_turn_is_cut_to_what_the_embedder_sees_and_whole_text_leaves_it_alone() -> None:
    turn = {"assistant_summary": "word " * 2000}

    cut = bound(ClaudeTurn(), SEEN).decompose("s", turn, {})
    whole = bound(ClaudeTurn(cut=WholeText()), SEEN).decompose("s", turn, {})

    assert len(cut.surfaces) > 1
    assert all(SEEN.count_tokens(surface.text) <= SEEN.max_tokens for surface in cut.surfaces)
    assert [surface.text for surface in whole.surfaces] == ["word " * 2000]


def test_a_session_has_the_surfaces_of_its_turns_and_their_places() -> None:
    turns = [
        {"user_prompt": "One?", "assistant_summary": "1", "model": "m"},
        {"user_prompt": " "},
        {"user_prompt": "2?"},
    ]

    plan = ClaudeSession().decompose("s", {"session": "s", "project": "p", "turns": turns}, {})

    assert [(s.metadata["turn"], s.kind, s.text) for s in plan.surfaces] == [
        (0, "user_prompt", "One?"),
        (0, "assistant_summary", "1"),
        (2, "user_prompt", "2?"),
    ]
    assert plan.surfaces[0].metadata["model"] == "m"
    assert plan.filter_fields == {"session": "s", "project": "p"}


@pytest.mark.parametrize(
    ("strategy", "raw", "message"),
    [
        (ClaudeTurn(), "text", "expected a mapping"),
        (ClaudeTurn(), {"user_prompt": 3}, "user_prompt: expected text, got int"),
        (ClaudeSession(), {"session": "s"}, "no list of turns; it has session"),
        (ClaudeSession(), {"turns": ["text"]}, "expected a mapping"),
    ],
)
def test_a_session_of_another_shape_fails_in_one_line(strategy: Strategy, raw: Raw, message: str) -> None:
    with pytest.raises(DecomposeError, match=message):
        strategy.decompose("s", raw, {})


GUIDE = """---
title: Not a heading
---
Before any heading.

# A *guide*

## Install

Words on installing it here.

```sh
# no heading
```

> # A quoted one
> with words of its own

### From source

Words on building it here.

Use
---

Words on using it here.
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_chunk_of_markdown_knows_the_headings_above_it(end: str) -> None:
    chunks = Chunked(chunk_size=70, overlap=0).cut(GUIDE.replace("\n", end), "text/markdown")

    above = {words: c.metadata.get("headings") for c in chunks for words in KNOWN if words in c.text}
    assert above == {
        "Before any": None,
        "on installing": ["A guide", "Install"],
        "no heading": ["A guide", "Install"],
        "A quoted one": ["A guide", "Install"],
        "on building": ["A guide", "Install", "From source"],
        "on using": ["A guide", "Use"],
    }


KNOWN = ("Before any", "on installing", "no heading", "A quoted one", "on building", "on using")

SOURCE = """import os

LIMIT = 3

# What it is for.
@cache
def first(x):
    return x + 1


class Large:
    size = 1

    def one(self):
        return "a text of some length"

    def two(self):
        return "a text of some length"


def last(): ...
def least(): ...
"""


@pytest.mark.parametrize("opening", ["## Fees\n\n", "# Desk\n\n## Fees\n\n", "```console\n", "~~~\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_headings_and_fences_are_no_chunk_of_their_own_if_what_is_below_fits(opening: str, end: str) -> None:
    rows = "".join(f"| {f'the fee of number {i}':56} |\n" for i in range(40))
    text = f"{opening}| fee |\n| --- |\n{rows}".replace("\n", end)

    first, *others = Chunked(chunk_size=300, overlap=0).cut(text, "text/markdown")

    assert first.text.startswith(opening.split("\n")[0])
    assert "| fee |" in first.text
    assert all(len(surface.text) <= 300 for surface in (first, *others))


def test_python_is_cut_where_definitions_begin() -> None:
    chunks = Chunked(chunk_size=80, overlap=0).cut(SOURCE, "text/x-python")

    assert [c.text.split("\n")[0] for c in chunks] == [
        "import os",
        "class Large:",
        "def one(self):",
        "def two(self):",
        "def last(): ...",
    ]
    assert chunks[0].text.endswith("return x + 1")
    assert chunks[-1].text == "def last(): ...\ndef least(): ..."


# Excludes cases in which parsers differ: HTML after a list without a blank line, and link definitions before a heading.
LINES = [
    "# A",
    "## B ##",
    "#",
    "#no",
    "text",
    "",
    "```",
    "```py",
    "````",
    "~~~",
    "~~~ x",
    "``` a`b",
    "---",
    "===",
    "- item",
    "- # x",
    "> # q",
    "  # i",
    "    # code",
    "<div>",
    "<pre>",
    "* a",
    "#\tT",
    "###### six",
    "####### seven",
    "- ```",
    "| a | b |",
    "--- | ---",
    "<!-- c",
    "# A #b#",
    "\\# x",
    "</div>",
    "<!-- d -->",
    "e -->",
    "<?php",
    "<!DOCTYPE x>",
    "  ```",
    "    ```",
    "\t```",
    "   ~~~",
    "  - y",
    "1. z",
    "  <p>",
    "<script>x</script>",
    " ",
    "Title",
    "Title -->",
    "Étude on two  words ",
    " ===",
    "  x",
    "    y",
    "  ```py",
    "   ```",
    "    # z",
    "\t# t",
    "    ===",
    "> ```",
    "1. ```",
    "x\n\n  ```\n  # c\n\n  ```",
    "- l\n\n    ```\n    # c\n    ```",
    "<pre>\n\nTitle\n===",
]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(LINES), max_size=10), st.sampled_from(["\n", "\r\n"]))
def test_headings_are_those_that_another_parser_sees(lines: list[str], end: str) -> None:
    text = end.join(lines)
    assume(not text.startswith("---"))  # front matter
    # CommonMark lets </script> end a <pre> block, pulldown-cmark wants </pre>.
    assume(not ("<pre>" in text and "</script>" in text))
    tokens = MarkdownIt("commonmark").disable("inline").parse(text)
    pairs = [(o, t) for o, t in pairwise(tokens) if o.type == "heading_open" and o.level == 0 and o.map]

    found = Headings.of(text, "text/markdown")

    places = [text[:start].count("\n") for start, _ in found.spans]
    assert places == [o.map[0] for o, _ in pairs if o.map]


@dataclass(frozen=True)
class OfKind:
    """One surface of the given kind."""

    kind: str

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        return SurfacePlan({}, [Surface(self.kind, str(raw))])


@pytest.mark.parametrize(("kind", "of"), [("claim", "claims"), ("summary", "summary nodes")])
def test_a_surface_of_a_kind_of_findingaids_own_fails_its_artifact_alone(
    make_aid: Callable[..., FindingAid], kind: str, of: str
) -> None:
    aid = make_aid(source=MemorySource({"a": "A ledger of ships."}), strategy=OfKind(kind), synthesizer=None)

    (failure,) = aid.index().corpora["docs"].failed

    message = f"the surface kind '{kind}' is reserved for {of}: choose another"
    assert (failure.artifact_id, failure.stage, failure.message) == ("a", "surfaces", message)
    for make in (Chunked, WholeText, WithSynopsis):
        with pytest.raises(ConfigError, match=f"^{make.__name__}.kind: {message}$"):
            make(kind=kind)


def test_other_kinds_are_the_strategys_own_and_searches_with_summaries_find_them(
    make_aid: Callable[..., FindingAid],
) -> None:
    aid = make_aid(source=MemorySource({"a": "A ledger of ships."}), strategy=OfKind("summaries"), synthesizer=None)
    aid.index()

    assert [hit.surface_kind for hit in aid.search("ledger", use_summaries=True)] == ["summaries"]


# -- titles ------------------------------------------------------------------------------------------------


def test_title_and_headings_precede_a_chunk_when_it_is_searched() -> None:
    text = "# Guide\n\n## Install\n\nSee [here](https://x.org) for all of it, and more.\n\n## Use\n\nRun it."
    cut = Chunked(chunk_size=75, overlap=0, titles=True)
    metadata = {"media_type": "text/markdown", "title": "The kit"}
    surfaces = cut.decompose("a.md", text, metadata).surfaces

    assert [s.text for s in surfaces] == [text[slice(*s.span or (0, 0))] for s in surfaces]
    assert surfaces[-1].searched == "The kit > Guide > Use\n\n## Use\n\nRun it."
    assert "x.org" not in " ".join(s.searched or "" for s in surfaces)
    assert [s.searched for s in Chunked(chunk_size=75).decompose("a.md", text, metadata).surfaces][-1] is None


def test_titles_take_at_most_a_quarter_of_what_the_model_reads() -> None:
    cut = bound(Chunked(titles=True, overlap=0), SEEN)
    title = "A very long title of many words " * 20
    surfaces = cut.decompose("a.txt", "Words of a text. " * 300, {"title": title}).surfaces

    assert len(surfaces) > 4
    assert all(SEEN.count_tokens(s.searched or "") <= SEEN.max_tokens for s in surfaces)
    assert bound(cut, SEEN) == cut


def test_readme_chunks_of_a_package_are_searched_under_its_name() -> None:
    raw = {"name": "kit", "description": "A kit.", "readme": "It sorts.", "readme_type": "text/plain"}
    surfaces = Package(titles=True).decompose("kit", raw, {}).surfaces

    assert [(s.kind, s.text, s.searched) for s in surfaces] == [
        ("description", "kit: A kit.", None),
        ("readme", "It sorts.", "kit\n\nIt sorts."),
    ]
