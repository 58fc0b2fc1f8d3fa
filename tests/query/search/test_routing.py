"""Routes: through summaries to the leaves of their artifacts, and along edges to other artifacts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import Corpus, FindingAid, Hit, QueryError
from findingaid.edges import CombinedExtractor, FieldEdges, LinkEdges
from findingaid.embedding.sentence import SentenceEmbedder
from findingaid.model import Artifact, Mode
from findingaid.query.search.reader import Candidate
from findingaid.query.search.request import Route
from findingaid.query.search.routing import ROUTES, Boost, Collapsed, Gate, resolve_route
from findingaid.query.search.walks import ANY, Neighbours, Step, Walk
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.skill import Skill
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import CountingEmbedder, HashEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import Cli, text_about

QUERY = "How do I restart the payment service?"
ANSWER = "Run the rollout command on both nodes, and wait until the health checks answer again."
TRAP = "How do I restart the payment service? the parrot said, and the sailors laughed until the morning."
TOPICS = (
    "rotating the keys", "moving the database", "reading the logs", "adding a currency", "paying out a refund",
    "testing the webhooks", "scaling the queue", "raising the limits", "closing the books", "paging the team",
    "archiving invoices", "renewing certificates",
)  # fmt: skip
MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")

MakeAid = Callable[..., FindingAid]


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """Runbooks of one service, one with the answer, and a novel that contains the question itself.

    A gold and a trap whose summary claims another topic, with the real model.
    """
    texts = {f"{topic.split()[-1]}.md": f"Notes on {topic}, kept by the people on call." for topic in TOPICS}
    texts |= {"answer.md": ANSWER, "novel.md": TRAP}
    script = {f"Notes on {topic}": f"Runbook of the payment service: {topic}." for topic in TOPICS}
    script |= {"rollout": "Runbook: how to restart the payment service.", "parrot": "A novel about life at sea."}
    return built(
        tmp_path_factory, with_synopsis(Chunked(), ScriptedSynthesizer(script=script)), texts, SentenceEmbedder()
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """Artifacts of every kind: many leaves, one, none; a summary, none; links in a ring and across."""
    chapters = {
        f"{i}.md": "\n\n".join(f"# Part {n}\n\nBook {i} says {n} things about ships." for n in range(3 * (i % 4) + 1))
        + f"\n\n[next]({(i + 1) % 12}.md) and [other]({i * 5 % 12}.md)"
        for i in range(12)
    }
    skills: dict[str, Any] = {
        name: {"name": name, "description": f"{name} ships", "parent": "yard"} for name in ("build", "paint", "sail")
    }
    synthesizer = ScriptedSynthesizer(script={"Book 3": "", "Book 7": ""})
    cut = Chunked(chunk_size=60, overlap=0)
    corpora = {
        "books": Corpus(
            "books", MemorySource(dict(chapters)), with_synopsis(cut, synthesizer), edges=CombinedExtractor()
        ),
        "skills": Corpus("skills", MemorySource(skills), Skill(), edges=FieldEdges()),
        "logs": Corpus("logs", MemorySource({"a.log": "Ships came in.", "b.log": "Ships went out."}), cut),
    }
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("library") / "index")), CountingEmbedder(), corpora)
    assert aid.index().ok
    return aid


def built(factory: pytest.TempPathFactory, strategy: Any, texts: Mapping[str, Any], embedder: Any) -> FindingAid:
    corpora = {"docs": Corpus("docs", MemorySource(dict(texts)), strategy, edges=LinkEdges())}
    aid = FindingAid(Store(str(factory.mktemp("routing") / "index")), embedder, corpora)
    assert aid.index().ok
    return aid


def ids(hits: Collection[Hit]) -> list[str]:
    return [hit.artifact_id for hit in hits]


# -- the trap ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_flat_search_ranks_the_trap_first(manuals: FindingAid, mode: Mode) -> None:
    assert ids(manuals.search(QUERY, 3, mode=mode, surfaces=["chunk"]))[0] == "novel.md"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("route", ["collapsed", "gate"])
def test_routing_puts_the_answer_first_and_drops_the_trap(manuals: FindingAid, mode: Mode, route: str) -> None:
    seeds = manuals.search("how to restart the payment service", mode="lexical", surfaces=["synopsis"])

    hits = manuals.search(QUERY, mode=mode, route=Gate(1) if route == "gate" else route)

    assert hits[0].text == ANSWER
    assert "novel.md" not in ids(hits)
    assert {hit.surface_kind for hit in hits} == {"chunk"}
    assert (hits[0].route, hits[0].depth, hits[0].seed) == (route, 1, seeds[0].record_id)


def test_a_gate_over_a_few_artifacts_excludes_the_trap(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With ten or fewer artifacts, the number of seeds excludes none of them."""
    texts = {"answer.md": ANSWER, "novel.md": TRAP, "keys.md": "Notes on rotating the keys."}
    script = {
        "rollout": "Runbook: how to restart the payment service.",
        "parrot": "A novel about the service at sea.",
        "Notes": "Runbook of the payment service: rotating the keys.",
    }
    strategy = with_synopsis(Chunked(), ScriptedSynthesizer(script=script))
    aid = built(tmp_path_factory, strategy, texts, SentenceEmbedder())

    for mode in MODES:
        found = ids(aid.search(QUERY, mode=mode, route="gate"))
        assert ids(aid.search(QUERY, mode=mode, route=Gate(cut=0)))[0] == "novel.md", mode
        assert found == ids(aid.search(QUERY, mode=mode, route=Gate(10, 0.3))), mode
        assert "novel.md" not in found, mode
        assert "answer.md" in found, mode
    # Ranks do not tell how similar a summary is.
    assert len(ids(aid.search(QUERY, mode="hybrid", route="gate", blend="rrf"))) == 3


@pytest.fixture(scope="module")
def migrations(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """ir's own case: the gold's synopsis matches the question, and a trap's does not, though its chunk does."""
    synopses = {"gold": "animal travel across the savanna", "trap": "cooking recipes for soup"}
    texts = {
        "gold": "The wizard turns knobs. Zebra migration is in this chunk.",
        "trap": "Zebra migration zebra migration. Zebra migration again.",
        **{f"n{i}": f"Noise {i} about boxes." for i in range(6)},
    }

    def synopsis_of(text: str, metadata: Mapping[str, Any], artifact: Artifact) -> str:
        return synopses.get(artifact.artifact_id, "other things entirely")

    strategy = with_synopsis(Chunked(), synopsis_of, synthesizer_id="ir-case-1")
    return built(tmp_path_factory, strategy, texts, HashEmbedder(dim=384))


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
@pytest.mark.parametrize("route", ["collapsed", "collapsed:1", "collapsed:3", "gate"])
def test_the_gold_is_routed_and_the_trap_excluded_as_in_ir(migrations: FindingAid, mode: Mode, route: str) -> None:
    query = "animal travel savanna zebra migration"
    assert ids(migrations.search(query, mode=mode, surfaces=["chunk"]))[0] == "trap"

    (hit,) = migrations.search(query, mode=mode, route=route)

    assert (hit.artifact_id, hit.surface_kind, hit.depth) == ("gold", "chunk", 1)


def test_collapsed_follows_the_best_summary_although_it_is_weak(migrations: FindingAid) -> None:
    assert migrations.search("an unrelated matter", mode="dense", route="collapsed")
    with pytest.raises(QueryError, match="the cut of a route must be from 0 to 1"):
        Collapsed(cut=2)


def test_a_gate_follows_the_best_seed_whatever_its_score(library: FindingAid) -> None:
    for query in ("ships", "nothing of this", "zzz"):
        assert library.search(query, mode="dense", corpora=["books"], route=Gate(cut=1))


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_boost_lifts_the_leaves_of_a_summary_that_matches(manuals: FindingAid, mode: Mode) -> None:
    def place(hits: list[Hit]) -> int:
        return [hit.text for hit in hits].index(ANSWER)

    flat = manuals.search(QUERY, 30, mode="dense", surfaces=["chunk"])
    boosted = manuals.search(QUERY, 30, mode=mode, surfaces=["chunk"], route="boost")

    assert place(boosted) < place(flat)
    assert "novel.md" in ids(boosted)
    lifted = boosted[place(boosted)]
    assert (lifted.route, lifted.depth) == ("boost", 1)
    assert lifted.seed


def test_boost_finds_what_shares_no_word_with_the_query(manuals: FindingAid) -> None:
    """In the words of the query there is nothing but the synopsis that leads to the answer."""
    hits = manuals.search("restart", mode="hybrid", route="boost")

    assert ANSWER in [hit.text for hit in hits]


@pytest.mark.parametrize("mode", MODES)
def test_a_boost_mixes_the_scores_of_leaf_and_summary(manuals: FindingAid, mode: Mode) -> None:
    own = {hit.record_id: hit.score for hit in manuals.search(QUERY, 50, mode=mode)}

    hits = manuals.search(QUERY, 50, mode=mode, surfaces=["chunk"], route=Boost(weight=0.25))

    assert hits
    for hit in hits:
        if hit.route and hit.record_id in own:
            assert hit.score == pytest.approx(0.75 * own[hit.record_id] + 0.25 * own[hit.seed], abs=1e-5)


@pytest.mark.parametrize("writer", ["anchored-2-openai-m-1", "extractive-3-v6"])
def test_auto_follows_only_summaries_by_a_model(tmp_path_factory: pytest.TempPathFactory, writer: str) -> None:
    script = {"rollout": "Runbook: how to restart the payment service.", "parrot": "A novel about life at sea."}
    strategy = with_synopsis(Chunked(), ScriptedSynthesizer(writer, script))
    aid = built(tmp_path_factory, strategy, {"answer.md": ANSWER, "novel.md": TRAP}, CountingEmbedder())

    found = aid.search(QUERY, route="auto")
    wanted = aid.search(QUERY, route="boost" if "openai" in writer else "flat")

    assert [(hit.record_id, hit.route) for hit in found] == [(hit.record_id, hit.route) for hit in wanted]
    assert {hit.route for hit in found} == ({"", "boost"} if "openai" in writer else {""})


# -- records reached -----------------------------------------------------------------------------------


def test_all_of_three_hundred_leaves_are_reached(tmp_path_factory: pytest.TempPathFactory) -> None:
    text = "\n\n".join(f"Line {i} of the ledger, long enough to be alone." for i in range(300))
    cut = with_synopsis(Chunked(chunk_size=60, overlap=0), ScriptedSynthesizer(script={"Line 0": "A ledger of ropes."}))
    aid = built(tmp_path_factory, cut, {"ledger.md": text, "other.md": "Something else."}, CountingEmbedder())

    for mode in MODES:
        hits = aid.search("ropes", 400, mode=mode, route="collapsed")

        assert len({hit.record_id for hit in hits if hit.artifact_id == "ledger.md"}) == 300, mode
        assert all(hit.depth == 1 and hit.seed for hit in hits), mode


@pytest.mark.parametrize("mode", MODES)
def test_artifacts_without_leaves_are_stood_for_by_their_summaries(library: FindingAid, mode: Mode) -> None:
    hits = library.search("ships", mode=mode, corpora=["skills"], route="collapsed")

    assert sorted(ids(hits)) == ["build", "paint", "sail"]
    assert {(hit.surface_kind, hit.depth, hit.seed) for hit in hits} == {("capability", 0, "")}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("route", ["collapsed", "gate"])
def test_where_there_are_only_chunks_nothing_is_routed(library: FindingAid, mode: Mode, route: str) -> None:
    assert library.search("ships", mode=mode, corpora=["logs"], route=route) == []


def test_corpora_of_several_kinds_give_leaves_and_summaries(library: FindingAid) -> None:
    hits = library.search("a synopsis of ships", 200, mode="dense", route="collapsed")

    assert {hit.corpus for hit in hits} == {"books", "skills"}
    assert not {"3.md", "7.md"} & set(ids(hits))  # which have no synopsis
    books = len([hit for hit in hits if hit.corpus == "books"])
    assert books == library.store.count("records", "surface_kind = 'chunk' AND corpus = 'books'") - sum(
        len([r for r in library.show(name, "books").records if r.surface_kind == "chunk"]) for name in ("3.md", "7.md")
    )


def test_k_hits_come_where_the_summaries_that_match_have_k(library: FindingAid) -> None:
    for k in (1, 11, 40):
        assert len(library.search("a synopsis of ships", k, mode="dense", route="collapsed")) == k
    assert len(library.search("a synopsis of ships", 12, mode="dense", route="collapsed", per_artifact=True)) == 12


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """Sixty artifacts of some leaves each, all about the same, one leading to another."""
    words = ["ship", "sail", "rope", "knot", "blue", "tide", "wind", "mast", "crew", "port", "deck", "hull"]
    chance = Random(7)
    texts = {
        f"{i}.md": "\n\n".join(" ".join(chance.choices(words, k=8)) for _ in range(4)) + f"\n\n[n]({i * 7 % 60}.md)"
        for i in range(60)
    }
    strategy = with_synopsis(Chunked(chunk_size=60, overlap=0), ScriptedSynthesizer())
    return built(tmp_path_factory, strategy, texts, CountingEmbedder())


@pytest.mark.parametrize(
    ("mode", "how"),
    [("dense", {"per_artifact": True}), ("lexical", {"query": ["ship", "tide and wind"]}), ("hybrid", {})],
)
@pytest.mark.parametrize("route", ROUTES)
def test_pages_of_a_route_are_cut_from_one_order(
    shelves: FindingAid, mode: Mode, route: str, how: dict[str, Any]
) -> None:
    """As far as the first hundred hits."""
    asked = {"query": "ship and rope", "mode": mode, "route": route, **how}

    every = [hit.record_id for hit in shelves.search(k=100, **asked)]
    pages = [shelves.search(k=50, offset=start, **asked) for start in (0, 50)]

    assert [hit.record_id for page in pages for hit in page] == every
    assert len(set(every)) == len(every)
    scores = [hit.score for page in pages for hit in page]
    assert scores == sorted(scores, reverse=True)


def test_a_route_finds_as_much_as_is_reranked(shelves: FindingAid) -> None:
    seen: list[int] = []

    def score(query: str, texts: Sequence[str]) -> list[float]:
        seen.append(len(texts))
        return [float(len(text)) for text in texts]

    hits = shelves.search("ship and rope", 5, mode="dense", route="collapsed", rerank=score, rerank_depth=90)

    assert (len(hits), seen) == (5, [90])


@pytest.mark.parametrize("mode", MODES)
def test_every_artifact_comes_by_collapsed_where_all_are_wanted(shelves: FindingAid, mode: Mode) -> None:
    """Behind those of the best summaries, which are the same however many are wanted."""
    few = shelves.search("synopsis of ship", 10, mode=mode, route="collapsed", per_artifact=True)
    all_ = shelves.search("synopsis of ship", 60, mode=mode, route="collapsed", per_artifact=True)

    assert len({hit.artifact_id for hit in all_}) == len(all_) == 60
    assert [hit.record_id for hit in all_[:10]] == [hit.record_id for hit in few]


def test_filters_hold_of_what_is_routed(library: FindingAid) -> None:
    assert library.search("ships", mode="dense", route="collapsed", surfaces=["synopsis"], corpora=["books"]) == []
    where = "artifact_id IN ('1.md', 'sail')"
    hits = library.search("a synopsis of ships", mode="dense", route="collapsed", where=where)
    assert set(ids(hits)) == {"1.md", "sail"}
    assert {hit.corpus for hit in library.search("ships", 50, route="boost", corpora=["skills"])} == {"skills"}


@settings(max_examples=40)
@given(
    mode=st.sampled_from(MODES),
    k=st.integers(1, 120),
    seeds=st.integers(1, 20),
    weight=st.floats(0, 1),
    query=st.sampled_from(["ships", "Book 5 says", "Part 2", "sail", "nothing of this"]),
    surfaces=st.sampled_from([(), ("chunk",), ("capability",), ("synopsis", "chunk")]),
    name=st.sampled_from(["collapsed", "gate", "boost"]),
)
def test_what_a_route_gives_is_always_sound(
    library: FindingAid, mode: Mode, k: int, seeds: int, weight: float, query: str, surfaces: Any, name: str
) -> None:
    route: Route = {"collapsed": Collapsed(seeds, weight), "gate": Gate(seeds), "boost": Boost(seeds, weight)}[name]

    hits = library.search(query, k, mode=mode, surfaces=surfaces, route=route)

    summaries = {r.record_id: a for a, r in every_record(library) if r.surface_kind != "chunk"}
    assert len({hit.record_id for hit in hits}) == len(hits) <= k
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.surface_kind in surfaces for hit in hits) or not surfaces
    assert all(summaries[hit.seed] == (hit.corpus, hit.artifact_id) for hit in hits if hit.seed)
    assert all((hit.depth, bool(hit.seed), bool(hit.route)) in {(0, False, False), (1, True, True)} for hit in hits)
    if name != "boost":
        assert all(hit.surface_kind == "chunk" or hit.corpus == "skills" for hit in hits)
    if name == "gate":
        assert len({(hit.corpus, hit.artifact_id) for hit in hits}) <= seeds


def every_record(aid: FindingAid) -> Iterator[tuple[tuple[str, str], Any]]:
    columns = ["corpus", "artifact_id", "record_id", "surface_kind"]
    for row in aid.store.published().to_table(columns=columns).to_pylist():
        yield (row["corpus"], row["artifact_id"]), type("Row", (), row)


# -- costs ---------------------------------------------------------------------------------------------


@dataclass
class Counted:
    """Table that counts its queries."""

    table: Any
    asked: list[Mapping[str, Any]]

    def to_table(self, **asked: Any) -> Any:
        self.asked.append(asked)
        return self.table.to_table(**asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)


def question(asked: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the queries at any depth; a ranking whose last entry ties with the next is read on."""
    return asked.get("filter"), "nearest" in asked, "full_text_query" in asked


class CountingStore(Store):
    """Hands out tables that count, in one list."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.asked: list[Mapping[str, Any]] = []

    def published(self) -> Any:
        return Counted(super().published(), self.asked)

    def beside(self, records: Any, table: str) -> Any:
        return Counted(super().beside(records, table), self.asked)


@pytest.mark.parametrize("size", [10, 60])
def test_a_route_asks_a_few_questions_whatever_the_size(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    texts = {f"{i}.md": f"Ship {i} sails{' on' * i}.\n\nIt is blue. [next]({(i + 1) % size}.md)" for i in range(size)}
    strategy = with_synopsis(Chunked(chunk_size=20, overlap=0), ScriptedSynthesizer())
    aid = built(tmp_path_factory, strategy, texts, CountingEmbedder())
    asked: dict[tuple[str, Mode], int] = {}

    for name in ROUTES:
        for mode in MODES:
            store = CountingStore(aid.store.uri)
            assert FindingAid(store, aid.embedder, aid.corpora).search("ship", mode=mode, route=name)
            asked[name, mode] = len(set(map(question, store.asked)))

    own = {mode: asked["flat", mode] for mode in MODES}
    assert max(asked[name, mode] - own[mode] for name, mode in asked) <= 6
    assert max(own.values()) <= 10


# -- walks ---------------------------------------------------------------------------------------------


def test_neighbours_of_what_is_found_come_after_it(library: FindingAid) -> None:
    found = library.search("Book 4", 1, mode="lexical", surfaces=["synopsis"], corpora=["books"])

    hits = library.search(
        "Book 4", 60, mode="dense", corpora=["books"], where="artifact_id = '4.md'", route="neighbours"
    )
    walked = library.search("Book 4", 200, mode="lexical", corpora=["books"], route="neighbours")

    assert set(ids(hits)) == {"4.md"}  # a filter also applies to the targets of edges
    assert found[0].artifact_id == "4.md"
    reached = [hit for hit in walked if hit.route == "edges"]
    assert all(hit.depth == 1 and hit.seed for hit in reached)
    seeds = {hit.record_id: hit for hit in walked}
    for hit in reached:
        neighbours = {n.artifact_id for n in library.neighbours(seeds[hit.seed].artifact_id, "books")}
        assert hit.artifact_id in neighbours
        assert hit.score == pytest.approx(seeds[hit.seed].score / 2)


def test_edges_are_followed_both_ways(library: FindingAid) -> None:
    def reached(policy: Neighbours) -> set[str]:
        hits = library.search("paint", 200, mode="lexical", surfaces=["capability"], route=policy)
        return {hit.artifact_id for hit in hits if hit.depth}

    assert reached(Neighbours(along=["REF"])) == set()
    assert reached(Neighbours()) == set()  # the yard is not an artifact
    hits = library.search(
        "Book 2", 300, mode="lexical", where="artifact_id IN ('2.md', '1.md')", route=Neighbours((), ANY)
    )
    assert {hit.artifact_id for hit in hits if hit.depth} <= {"1.md", "2.md"}


@dataclass(frozen=True)
class Scripted:
    """Policy whose steps depend unpredictably on the position of the walk."""

    steps: tuple[Step, ...]

    def step(self, at: Candidate) -> Step:
        return self.steps[int(at.record_id, 16) % len(self.steps)]


STEPS = st.builds(
    Step, st.booleans(), st.booleans(), st.sampled_from([(), ANY, ("LINK",), ("REF",)]), st.sampled_from([(), ANY])
)


@settings(max_examples=30)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=4),
    depth=st.integers(0, 6),
    nodes=st.integers(1, 300),
    mode=st.sampled_from(MODES),
)
def test_a_walk_ends_within_its_bounds(
    library: FindingAid, steps: list[Step], depth: int, nodes: int, mode: Mode
) -> None:
    """Over rings of links, with policies that go everywhere, in circles, or nowhere."""
    walk = Walk(Scripted(tuple(steps)), depth, nodes)

    hits = library.search("ships Book 1", 1_000, mode=mode, route=walk)

    assert len({hit.record_id for hit in hits}) == len(hits) <= nodes
    assert all(hit.depth <= depth for hit in hits)
    assert all(bool(hit.seed) == bool(hit.depth) == bool(hit.route) for hit in hits)
    if not any(step.emit for step in steps):
        assert hits == []


def test_a_policy_that_never_stops_ends(library: FindingAid) -> None:
    everywhere = Scripted((Step(leaves=True, along=ANY, against=ANY),))

    hits = library.search("Book 1", 1_000, mode="lexical", route=Walk(everywhere, depth=1_000))

    assert {hit.artifact_id for hit in hits if hit.corpus == "books"} == {f"{i}.md" for i in range(12)}


@dataclass(frozen=True)
class Failing:
    def step(self, at: Candidate) -> Any:
        if at.surface_kind == "capability":
            raise ValueError("it cannot tell")
        return None


def test_a_policy_that_fails_is_one_line(library: FindingAid) -> None:
    with pytest.raises(QueryError, match="route: Failing fails: ValueError: it cannot tell"):
        library.search("sail", corpora=["skills"], route=Failing())
    with pytest.raises(QueryError, match="route: Failing returned NoneType, expected Step"):
        library.search("ships", corpora=["logs"], route=Failing())


# -- by name -------------------------------------------------------------------------------------------


def test_routes_are_named_or_imported() -> None:
    assert resolve_route("flat") is None
    assert resolve_route("boost") == Boost()
    assert resolve_route(f"{__name__}:Failing") == Walk(Failing())
    assert resolve_route("findingaid.query:Gate") == Gate()
    assert [resolve_route(f"{name}:3") for name in ("gate", "collapsed", "boost")] == [Gate(3), Collapsed(3), Boost(3)]
    for wrong, message in (
        ("tree", "unknown route 'tree'. Known: flat, auto, boost, collapsed, gate, neighbours, or module:attribute"),
        ("auto:3", "route 'auto:3': only boost, collapsed, gate take a number of summaries, as in gate:3"),
        ("no_such_module:Route", "'no_such_module:Route' cannot be imported"),
        ("json:dumps", "is not a route"),
        (f"{__name__}:Scripted", "Scripted"),
    ):
        with pytest.raises(QueryError) as raised:
            resolve_route(wrong)
        assert message in str(raised.value)
    with pytest.raises(QueryError, match="at least 1 seed"):
        resolve_route("gate:0")
    with pytest.raises(QueryError, match="from 0 to 1, got 2"):
        Boost(weight=2)
    with pytest.raises(QueryError, match="the cut of a route must be from 0 to 1, got 2"):
        Gate(cut=2)


@dataclass(frozen=True)
class UpAndDown:
    """Policy of docs/routes.md: to the parents of hits, and from there to all their children."""

    def step(self, at: Candidate) -> Step:
        return Step(along=["PARENT"]) if at.depth == 0 else Step(emit=at.depth > 1, against=["PARENT"])


def test_a_walk_goes_on_from_what_it_came_to(make_aid: MakeAid) -> None:
    skills = {name: {"name": name, "description": f"can {name}", "parent": "office"} for name in ("pdf", "forms")}
    skills["office"] = {"name": "office", "description": "papers"}
    aid = make_aid(source=MemorySource(dict(skills)), strategy=Skill(), synthesizer=None, edges=FieldEdges())
    aid.index()

    hits = aid.search("forms", mode="lexical", route=Walk(UpAndDown(), depth=2))

    assert [(hit.artifact_id, hit.depth) for hit in hits] == [("forms", 0), ("pdf", 2)]
    assert hits[1].seed == hits[0].record_id
    assert ids(aid.search("forms", mode="lexical", route=UpAndDown())) == ["forms"]


def test_neighbours_are_followed_on_the_command_line_and_chunks_alone_route_nowhere(cli: Cli) -> None:
    cli.write("a.md", "Ropes are kept here: [knots](b.md).")
    cli.write("b.md", "Something else entirely.")
    cli.run("index")

    hits = cli.json("search", "ropes", "--mode", "lexical", "--route", "neighbours")
    nowhere = cli.run("search", "ropes", "--route", "collapsed")

    assert [(hit["artifact_id"], hit["depth"]) for hit in hits] == [("a.md", 0), ("b.md", 1)]
    assert hits[1]["seed"] == hits[0]["record_id"]
    assert (nowhere.exit_code, nowhere.stdout) == (0, "nothing found\n")


def test_the_command_line_takes_a_route(cli: Cli) -> None:
    cli.write("a.md", text_about("ropes", "knots", "sails"))
    cli.settings["corpora"]["docs"]["synopsis"] = True
    cli.run("index")

    (hit, *_) = cli.json("search", "ropes", "--mode", "lexical", "--route", "collapsed")
    assert (hit["surface_kind"], hit["route"], hit["depth"]) == ("chunk", "collapsed", 1)
    explained = cli.run("search", "ropes", "--mode", "lexical", "--route", "collapsed", "--explain").stdout
    assert f"by collapsed, 1 from {hit['seed']}" in explained
    assert cli.run("search", "ropes", "--route", "tree").stderr.startswith("Error: unknown route 'tree'. Known: flat,")
    policed = cli.json("search", "ropes", "--mode", "lexical", "--route", f"{__name__}:UpAndDown")
    assert {found["depth"] for found in policed} == {0}
