"""Edges: extracted, stored apart from records, rebuilt where artifacts change, queried in both directions."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid import Artifact, ConfigError, Corpus, Edge, FindingAid, QueryError, StoreError
from findingaid.edges import CombinedExtractor, FieldEdges, LinkEdges, extractor_from
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.package import Package
from findingaid.strategies.skill import Skill
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import Cli, ReadyMade, text_about
from tests.indexing.test_incremental import records
from tests.support.programs import run_program

MakeAid = Callable[..., FindingAid]


def linked(text: str, artifact_id: str = "guide/start.md") -> list[tuple[str, str]]:
    artifact = Artifact(artifact_id, text, {"media_type": "text/markdown"})
    return [(edge.target_id, edge.section) for edge in LinkEdges().extract(artifact, {})]


@pytest.fixture
def pages(source: MemorySource) -> MemorySource:
    """Three files: two link to the ledger, and one to a missing file."""
    source.payloads["vector.md"] += "\n\nSee [the ledger](ledger.md#ledger-again).\n"
    source.payloads["reader.md"] += "\n\n[Ledger](./ledger.md), [again](ledger.md) and [gone](old/gone.md).\n"
    return source


@pytest.fixture
def linking(make_aid: MakeAid, pages: MemorySource, ready_made: ReadyMade) -> FindingAid:
    aid = make_aid(edges=CombinedExtractor())
    ready_made("linking", aid.index)
    return aid


def ends(aid: FindingAid, artifact_id: str, **asked: Any) -> list[str]:
    return [neighbour.artifact_id for neighbour in aid.neighbours(artifact_id, **asked)]


# -- extractors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](other.md)", [("guide/other.md", "")]),
        ("[a](../README.md#how-it-works)", [("README.md", "how-it-works")]),
        ("[a](/docs/x.md)", [("docs/x.md", "")]),
        ("[a](<a file.md> 'A title') [b](a%20file.md?plain=1)", [("guide/a file.md", "")] * 2),
        ("[a][ref] and [ref]\n\n[ref]: ./deep/x.md", [("guide/deep/x.md", "")] * 2),
        ("> - [a](in-a-quote.md)", [("guide/in-a-quote.md", "")]),
        ("[up](../../outside.md)", [("../outside.md", "")]),
        ("[u](https://example.org/x.md) [m](mailto:a@example.org) [n](//host/x.md) [s](#here)", []),
        ("[itself](start.md#later) ![image](picture.png)", []),
        ("`[a](code.md)`\n\n```\n[a](fenced.md)\n```\n\n<!-- [a](comment.md) -->", []),
        ("[a](http://[bad/x.md) [b](<>) [c]()", []),
        ("---\nrelated: '[a](front-matter.md)'\n---\n[b](body.md)", [("guide/body.md", "")]),
    ],
)
def test_links_lead_where_markdown_says(text: str, found: list[tuple[str, str]]) -> None:
    assert linked(text) == found


def test_the_span_of_a_link_is_the_paragraph_that_holds_it() -> None:
    text = "---\ntitle: A\n---\n# Heading\r\n\r\nSome text with\r\n[a link](other.md) in it.\r\n\r\nMore."

    (edge,) = LinkEdges().extract(Artifact("a.md", text, {"text_type": "text/markdown"}), {})

    assert edge.span is not None
    assert text[slice(*edge.span)] == "Some text with\r\n[a link](other.md) in it.\r\n"


def test_only_markdown_has_links() -> None:
    assert list(LinkEdges().extract(Artifact("a.py", "[a](b.py)", {"media_type": "text/x-python"}), {})) == []
    assert list(LinkEdges().extract(Artifact("a", {"text": "[a](b)"}, {"media_type": "text/markdown"}), {})) == []


@given(st.text(st.sampled_from("[]()<>#/.:a %\n`!\\\u00e9")))
def test_any_text_has_links_to_normal_paths_or_none(text: str) -> None:
    for target, _ in linked(text):
        assert target
        assert not target.startswith("/")
        assert "//" not in target


def test_fields_become_edges_of_the_kind_named() -> None:
    fields = {"deps": ["numpy", "", "pyarrow"], "parent": "office/pdf", "replaces": 7, "owner": "someone"}

    found = list(
        FieldEdges({"deps": "REF", "parent": "PARENT", "replaces": "REPLACES"}).extract(Artifact("forms", ""), fields)
    )

    assert found == [
        Edge("REF", "numpy"), Edge("REF", "pyarrow"), Edge("PARENT", "pdf"), Edge("REPLACES", "7"),
    ]  # fmt: skip


def test_where_ids_are_paths_so_are_the_targets() -> None:
    assert list(FieldEdges().extract(Artifact("a/b.md", ""), {"parent": "a/index.md"})) == [
        Edge("PARENT", "a/index.md")
    ]
    assert list(FieldEdges({"of": "OF"}, "other").extract(Artifact("b", ""), {"of": "a/b"})) == [
        Edge("OF", "a/b", "other")
    ]


def test_packages_refer_to_what_they_need_and_skills_to_what_they_are_below(tmp_path: Path) -> None:
    packages = MemorySource({"pandas": {"name": "pandas", "description": "tables", "deps": ["numpy", "pytz"]}})
    packages.payloads["numpy"] = {"name": "numpy", "description": "arrays"}
    skills = MemorySource({"pdf": {"name": "pdf", "description": "reads", "parent": "office"}})
    skills.payloads["forms"] = {"name": "forms", "description": "fills", "parent": "office/pdf"}
    corpora = {
        "env": Corpus("env", packages, Package(chunk_size=200), edges=CombinedExtractor()),
        "skills": Corpus("skills", skills, Skill(), edges=CombinedExtractor()),
    }
    aid = FindingAid(Store(str(tmp_path / "index")), CountingEmbedder(), corpora)

    aid.index()

    assert [(n.kind, n.artifact_id, n.title) for n in aid.neighbours("pandas")] == [
        ("REF", "numpy", "numpy"), ("REF", "pytz", None),
    ]  # fmt: skip
    assert [(n.kind, n.artifact_id) for n in aid.neighbours("pdf", reverse=True)] == [("PARENT", "forms")]
    assert ends(aid, "office", reverse=True) == ["pdf"]


# -- costs ---------------------------------------------------------------------------------------------


def test_asking_for_edges_changes_no_record_and_calls_no_model(
    make_aid: MakeAid, pages: MemorySource, embedder: CountingEmbedder, synthesizer: ScriptedSynthesizer
) -> None:
    make_aid().index()
    before, version = records(make_aid()), make_aid().publisher.newest()
    embedder.seen.clear()
    synthesizer.seen.clear()

    aid = make_aid(edges=CombinedExtractor())
    report = aid.index()

    assert report.ok
    assert (embedder.seen, synthesizer.seen) == ([], [])
    assert (records(aid), aid.publisher.newest()) == (before, version)
    assert ends(aid, "ledger.md", reverse=True) == ["reader.md", "vector.md"]


def test_edges_are_written_again_where_they_changed_and_nowhere_else(linking: FindingAid, pages: MemorySource) -> None:
    def version() -> int:
        return int(linking.store.dataset("edges").version)

    first = version()
    pages.payloads["vector.md"] += "\n\nA sentence more."
    linking.index()
    assert version() == first

    pages.payloads["vector.md"] += "\n\n[Reader](reader.md)"
    linking.index()
    assert version() == first + 1
    assert ends(linking, "vector.md") == ["ledger.md", "reader.md"]


def test_a_run_over_unchanged_sources_does_nothing(linking: FindingAid) -> None:
    versions = {table: linking.store.dataset(table).version for table in ("edges", "records", "ledger")}

    report = linking.index()

    assert report.corpora["docs"].changed == 0
    assert {table: linking.store.dataset(table).version for table in versions} == versions


def test_edges_of_what_is_deleted_go(linking: FindingAid, pages: MemorySource) -> None:
    del pages.payloads["reader.md"]

    linking.index()

    assert ends(linking, "ledger.md", reverse=True) == ["vector.md"]
    assert linking.store.count("edges") == 1


def test_without_an_extractor_they_go(linking: FindingAid, make_aid: MakeAid) -> None:
    aid = make_aid()

    aid.index()

    assert aid.store.count("edges") == 0
    assert ends(aid, "vector.md") == []
    assert aid.verify() == []


# -- readers, damage -----------------------------------------------------------------------------------


def test_readers_see_the_edges_of_the_records_they_see(linking: FindingAid, pages: MemorySource) -> None:
    aid = linking
    pages.payloads["vector.md"] = text_about("vector") + "\n\n[Reader](reader.md)"

    plan = aid.open_run().plan("docs")
    aid.indexer("docs").build(plan.stale)  # and not published yet

    assert ends(aid, "vector.md") == ["ledger.md"]
    aid.index()
    assert ends(aid, "vector.md") == ["reader.md"]


def test_a_rollback_takes_the_edges_along(make_aid: MakeAid, pages: MemorySource) -> None:
    docs = make_aid(edges=CombinedExtractor())
    aid = FindingAid(docs.store, docs.embedder, docs.corpora, retain=2)
    aid.index()
    for name in ("gone.md", "new.md"):
        pages.payloads["vector.md"] = text_about("vector") + f"\n\n[Reader]({name})"
        aid.index()

    aid.rollback()
    assert ends(aid, "vector.md") == ["gone.md"]

    aid.publish()
    assert ends(aid, "vector.md") == ["new.md"]
    assert len(aid.store.dataset("edges").tags.list()) == 2


def test_a_run_that_died_before_it_published_its_edges_is_published_by_the_next(
    make_aid: MakeAid, pages: MemorySource
) -> None:
    make_aid().index()
    aid = make_aid(edges=CombinedExtractor())
    aid.indexer("docs").build(aid.open_run().plan("docs").stale)
    assert ends(aid, "vector.md") == []
    assert aid.verify() == ["the newest records are not published: run `findingaid index`"]

    aid.index()

    assert ends(aid, "vector.md") == ["ledger.md"]
    assert aid.verify() == []


def test_a_lost_table_is_noticed_and_made_again(linking: FindingAid, embedder: CountingEmbedder) -> None:
    shutil.rmtree(Path(linking.store.uri, "edges.lance"))
    with pytest.raises(StoreError, match=r"the edges of .* are lost: run `findingaid index`"):
        linking.neighbours("vector.md")
    assert linking.verify() == ["table edges is lost: run `findingaid index`"]
    embedder.seen.clear()

    report = linking.index()

    assert report.repaired == ["table edges was lost and was rebuilt"]
    assert embedder.seen == []
    assert ends(linking, "vector.md") == ["ledger.md"]
    assert linking.verify() == []


def test_lost_rows_are_noticed_and_made_again(linking: FindingAid) -> None:
    linking.store.dataset("edges").delete("artifact_id = 'vector.md'")
    assert "artifacts whose rows in table edges" in linking.verify()[0]

    linking.index()

    assert ends(linking, "vector.md") == ["ledger.md"]
    assert linking.verify() == []


def test_a_purge_takes_the_edges_of_strangers_and_keeps_the_others(linking: FindingAid, make_aid: MakeAid) -> None:
    other = Corpus("other", MemorySource({"x.md": "[y](y.md)"}), linking.corpora["docs"].strategy, edges=LinkEdges())
    both = FindingAid(linking.store, linking.embedder, {**linking.corpora, "other": other})
    both.index()
    assert ends(both, "x.md") == ["y.md"]

    linking.purge()

    assert linking.store.count("edges") == 3
    assert ends(linking, "vector.md") == ["ledger.md"]
    assert linking.verify() == []


CHILD = """
from lance.dataset import Tags
from findingaid.store import Publisher, Store, upkeep
from tests.edges.test_edges import aid_of
from tests.support.kills import Kill

kill = Kill({die_at}, {after})
kill.watch(Store, "_replace", "_rewrite", "append")
kill.watch(upkeep, "drop_old_versions")
kill.watch(Publisher, "_serve", "_tag")
kill.watch(Tags, "create", "update", "delete")
aid_of({store!r}, {edition}, {edges}).index()
"""


def aid_of(store: str, edition: int, edges: bool) -> FindingAid:
    """Ten files with a link each; the second edition has some elsewhere, and has lost some files."""
    links = {i: f"[next]({(i + edition * (i % 2) + 1) % 10}.md)" for i in range(10) if edition == 0 or i % 4}
    texts: dict[str, Any] = {f"{i}.md": f"{text_about(f'topic {i}')}\n\n{link}" for i, link in links.items()}
    corpus = Corpus(
        "docs", MemorySource(texts), Chunked(chunk_size=200, overlap=0), edges=LinkEdges() if edges else None
    )
    return FindingAid(Store(store), CountingEmbedder(), {"docs": corpus})


def published_edges(aid: FindingAid) -> list[dict[str, Any]]:
    edges = aid.store.beside(aid.store.published(), "edges")
    return sorted(edges.to_table().to_pylist(), key=lambda row: (row["artifact_id"], row["position"]))


@pytest.mark.parametrize(
    "die_at", [8, *(pytest.param(step, marks=pytest.mark.slow) for step in (2, 5, 11, 13, 15, 17, 19, 22))]
)
def test_a_killed_run_done_again_has_the_edges_of_a_clean_build(tmp_path: Path, die_at: int) -> None:
    """Also where the source was reverted after the crash, and where the extractor was the change."""
    store = tmp_path / "index"
    aid_of(str(store), 0, edges=die_at % 2 == 0).index()

    code = CHILD.format(die_at=die_at, after=die_at % 3 == 0, store=str(store), edition=die_at % 4 > 0, edges=True)
    killed = run_program(code)
    edition, edges = die_at // 2 % 2, die_at % 5 > 0
    aid = aid_of(str(store), edition, edges)
    assert aid.index().ok
    clean = aid_of(str(tmp_path / "clean"), edition, edges)
    clean.index()

    assert killed.returncode in {0, -signal.SIGKILL}, killed.stderr
    assert published_edges(aid) == published_edges(clean)
    assert records(aid) == records(clean)
    assert aid.verify() == []


# -- asking --------------------------------------------------------------------------------------------


def test_neighbours_are_told_in_the_order_of_the_text_and_whether_they_are_there(linking: FindingAid) -> None:
    found = linking.neighbours("reader.md")

    assert [(n.artifact_id, n.title is None) for n in found] == [("ledger.md", False), ("old/gone.md", True)]
    assert [n.section for n in linking.neighbours("vector.md")] == ["ledger-again"]


def test_neighbours_of_one_kind(linking: FindingAid) -> None:
    assert ends(linking, "vector.md", kinds=["REF"]) == []
    assert ends(linking, "vector.md", kinds=["REF", "LINK"]) == ["ledger.md"]


def test_what_is_in_no_corpus_can_be_asked_for_by_what_refers_to_it(linking: FindingAid) -> None:
    assert ends(linking, "old/gone.md", reverse=True) == ["reader.md"]
    assert ends(linking, "ledger.md") == []
    with pytest.raises(QueryError, match="no published artifact"):
        linking.neighbours("nowhere.md")


def test_an_id_in_several_corpora_wants_a_corpus(linking: FindingAid, pages: MemorySource) -> None:
    other = Corpus("other", pages, linking.corpora["docs"].strategy, edges=LinkEdges())
    aid = FindingAid(linking.store, linking.embedder, {**linking.corpora, "other": other})
    aid.index()

    with pytest.raises(QueryError, match="is in several corpora, docs, other: name one by --corpus"):
        aid.neighbours("ledger.md", reverse=True)
    assert {n.corpus for n in aid.neighbours("ledger.md", "other", reverse=True)} == {"other"}
    with pytest.raises(ConfigError, match="unknown corpus 'nowhere'"):
        aid.neighbours("ledger.md", "nowhere")


def test_most_referenced_counts_artifacts_not_links(linking: FindingAid, pages: MemorySource) -> None:
    pages.payloads["reader.md"] += "\n\n[Ledger](ledger.md#ledger)"
    linking.index()

    found = linking.most_referenced(1)

    assert [(r.artifact_id, r.references) for r in found] == [("ledger.md", 2)]
    assert [(r.artifact_id, r.title) for r in linking.most_referenced()[1:]] == [("old/gone.md", None)]
    assert linking.most_referenced(kinds=["REF"]) == []
    with pytest.raises(QueryError, match="k must be at least 1"):
        linking.most_referenced(0)


# -- extractors of one's own ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """Extractor of an edge for each word before a colon, like one that a user writes."""

    kind: str = "SEE"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterator[Any]:
        for word in str(artifact.raw).split():
            if word == "broken:":
                raise ValueError("it does not go on")
            if word == "odd:":
                yield word
            elif word.endswith(":"):
                yield Edge(self.kind if word != "blank:" else "", word[:-1])


def test_one_that_fails_fails_one_artifact(make_aid: MakeAid, source: MemorySource) -> None:
    source.payloads |= {"a": "fine: text", "b": "broken: text", "c": "odd: text", "d": "blank: text"}
    aid = make_aid(edges=Words())

    report = aid.index()

    assert [str(failure) for failure in report.corpora["docs"].failed] == [
        "b: edges: ValueError: it does not go on [surfaces: other]",
        "c: edges: AttributeError: 'str' object has no attribute 'kind' [surfaces: other]",
        "d: edges: Edge(kind='', target_id='blank', corpus='', section='', span=None) needs a kind and a target,"
        " as texts [surfaces: parse]",
    ]
    assert ends(aid, "a") == ["fine"]


def test_a_configuration_names_extractors(cli: Cli) -> None:
    cli.write("a.md", "[b](b.md) see: this")
    cli.settings["corpora"]["docs"]["edges"] = [
        {"kind": "links"},
        {"kind": f"{__name__}:Words", "params": {"kind": "S"}},
    ]
    cli.run("index")

    assert [(n["kind"], n["artifact_id"]) for n in cli.json("neighbours", "a.md")] == [("LINK", "b.md"), ("S", "see")]

    cli.settings["corpora"]["docs"]["edges"] = {"kind": "link"}
    assert "corpora.docs.edges.kind: unknown extractor 'link'. Known: fields, links" in cli.run("plan").output
    cli.settings["corpora"]["docs"]["edges"] = "links"
    assert "corpora.docs.edges" in cli.run("plan").output
    cli.settings["corpora"]["docs"]["edges"] = False
    cli.run("index")
    assert cli.json("neighbours", "a.md") == []


def test_all_that_ship_are_the_default() -> None:
    assert extractor_from(True, "edges") == CombinedExtractor((FieldEdges(), LinkEdges()))
    assert extractor_from(False, "edges") is None


def test_the_command_line_shows_both_ways_and_the_most_referenced(cli: Cli) -> None:
    cli.write("a.md", "# A\n\n[b](b.md#two)")
    cli.write("b.md", "# B\n\n[gone](gone.md)")
    cli.run("index")

    assert cli.run("neighbours", "a.md").output.split() == [
        "kind", "corpus", "artifact", "section", "title", "LINK", "docs", "b.md", "two", "B",
    ]  # fmt: skip
    assert "a.md" in cli.run("neighbours", "b.md", "--reverse").output
    assert cli.run("neighbours", "a.md", "--reverse").output == "nothing refers to it\n"
    assert cli.run("neighbours", "a.md", "--kind", "REF").output == "it refers to nothing\n"
    assert [r["artifact_id"] for r in cli.json("neighbours")] == ["b.md", "gone.md"]
    assert cli.run("neighbours", "missing").exit_code == 1
