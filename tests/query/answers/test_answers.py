"""Answers, passages and provenance over a real index: citations can be opened and follow decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from findingaid import ConfigError, Corpus, FindingAid, ModelError, QueryError
from findingaid.claims.decisions import DecisionLog, Verdict
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.model import Action, Tier, Truth, claim_id
from findingaid.corpus import Claiming
from findingaid.embedding.minilm import MiniLM
from findingaid.protocols import Bullet, Draft, Member, NodeProducer
from findingaid.query.answers.answer import CITATION
from findingaid.query.answers.generation import OpenAIAnswerer
from findingaid.query.search.components import SearchDefaults
from findingaid.query.search.probes import probe_scores
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer
from tests.conftest import Cli, ReadyMade

TOKENS = "Auth signs every token with a rotating key."
HOURS = "Auth tokens expire after one hour of use."
DAYS = "Auth tokens expire after seven days of use."
LEDGER = "The ledger keeps one row an artifact."
UMLAUT = "Die Größe der Tür beträgt genau zwei Meter, sagt Anaïs."

TEXTS = {
    "auth.md": f"# Auth\n\nHow it works. {TOKENS} {HOURS}\n\nNothing else is said here about it.\n",
    "old.md": f"# Old\n\n{DAYS}\n\n{TOKENS}\n",
    "ledger.md": f"# Ledger\n\n{LEDGER}\n\n{UMLAUT}\n",
}
SECRET = "The secret corpus says auth tokens are worthless."


def the_id(text: str, corpus: str = "docs") -> str:
    return claim_id(corpus, text)


def decide(aid: FindingAid, action: Action, text: str, other: str = "", truth: Truth | None = None) -> None:
    verdict = Verdict(action, "docs", the_id(text), "auth.md", the_id(other) if other else "", truth)
    DecisionLog(aid.store).decide(lambda _: [verdict], "ann", "so it is")


def cited(aid: FindingAid, query: str = "auth tokens", **how: Any) -> list[str]:
    return [claim.text for claim in aid.answer(query, **how).claims]


def build(folder: Path, nodes: NodeProducer | None = None, **changed: Any) -> FindingAid:
    """Return an aid over sources in memory and a store in this folder."""
    cut = Chunked(chunk_size=200, overlap=0)
    sources = {"docs": MemorySource(dict(TEXTS)), "secret": MemorySource({"s.md": SECRET})}
    claiming = Claiming(ExtractiveClaims(), nodes=nodes, at_least=2)
    corpora = {name: Corpus(name, source, cut, claims=claiming) for name, source in sources.items()}
    return FindingAid(Store(str(folder / "index")), CountingEmbedder(), corpora, **changed)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., FindingAid]:
    """Return a function that builds the aid anew; the store stays."""
    return partial(build, tmp_path)


@pytest.fixture
def aid(make: Callable[..., FindingAid], ready_made: ReadyMade) -> FindingAid:
    ready_made("answers", lambda: make().index())
    return make()


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """The same for tests that change nothing."""
    aid = build(tmp_path_factory.mktemp("answers"))
    aid.index()
    return aid


# -- answers -------------------------------------------------------------------------------------------


def test_every_citation_of_an_answer_can_be_opened_at_its_passage(unchanged: FindingAid) -> None:
    answer = unchanged.answer("how long do auth tokens live?", corpora=["docs"])

    views = [unchanged.passages(found) for found in CITATION.findall(answer.answer)]
    assert answer.claims
    assert len(views) == len(answer.claims)
    for view, claim in zip(views, answer.claims, strict=True):
        assert view is not None
        assert view.text == claim.text
        assert all(TEXTS[p.artifact_id][slice(*p.span or ())] == p.quote and not p.broken for p in view.passages)
    assert answer.confidence == "medium"
    assert answer.gaps == ["live"]


def test_what_no_claim_speaks_of_has_no_answer(unchanged: FindingAid) -> None:
    answer = unchanged.answer("kubernetes billing")

    assert answer.to_dict()["answer"] == ""
    assert (answer.to_dict()["claims"], answer.to_dict()["gaps"]) == ([], ["kubernetes", "billing"])
    assert answer.to_dict()["meta"]["confidence"] is None


def test_a_claim_of_two_artifacts_is_cited_once_with_both_places(unchanged: FindingAid) -> None:
    answer = unchanged.answer("rotating key", corpora=["docs"])

    assert [claim.text for claim in answer.claims] == [TOKENS]
    assert [place.artifact_id for place in answer.claims[0].places] == ["auth.md", "old.md"]


def test_a_retracted_claim_is_gone_at_once_from_everywhere_and_takes_no_place(aid: FindingAid) -> None:
    before = cited(aid, "expire use", depth=1, corpora=["docs"])
    retracted = before[0]
    record = next(h.record_id for h in aid.search("expire", 50, surfaces=["claim"]) if h.text == retracted)

    decide(aid, Action.ARCHIVE, retracted)

    other = ({HOURS, DAYS} - {retracted}).pop()
    assert cited(aid, "expire use", depth=1, corpora=["docs"]) == [other]
    for ask in (aid.passages, aid.why):
        with pytest.raises(QueryError, match="is archived") as error:
            ask(the_id(retracted))
        assert retracted not in str(error.value)
    with pytest.raises(QueryError):
        aid.why(record)
    assert retracted not in [claim.text for claim in aid.impact("auth.md").claims + aid.impact("old.md").claims]


def test_what_people_decided_shows_in_tier_and_confidence(aid: FindingAid) -> None:
    decide(aid, Action.APPROVE, LEDGER, truth=Truth.STABLE)

    answer = aid.answer("ledger row")

    assert (answer.claims[0].tier, answer.confidence) == (Tier.APPROVED, "high")
    for truth in (Truth.ACTIONABLE, Truth.WORKING):
        decide(aid, Action.APPROVE, LEDGER, truth=truth)
        meta = aid.answer("ledger row").to_dict()["meta"]
        assert (meta["confidence"], meta["standing"]) == ("medium", truth.value)
        assert meta["relevance"] > 0.9
    assert cited(aid, tiers=["approved"]) == []
    assert cited(aid, "ledger", tiers=["approved"]) == [LEDGER]
    with pytest.raises(QueryError, match="unknown tier"):
        aid.answer("ledger", tiers=["best"])


def test_a_contested_claim_comes_with_its_other_side(aid: FindingAid) -> None:
    decide(aid, Action.CONTEST, HOURS, DAYS)

    answer = aid.answer("tokens one hour", corpora=["docs"])

    assert [claim.text for claim in answer.claims] == [HOURS, DAYS]
    assert "Contested by: Auth tokens expire after seven days of use [" in answer.answer
    assert answer.confidence == "low"
    decide(aid, Action.REJECT, DAYS)
    assert cited(aid, "tokens one hour", corpora=["docs"]) == [HOURS]
    assert aid.answer("tokens one hour", corpora=["docs"]).contradictions == []


def test_no_answer_shows_what_another_corpus_says(unchanged: FindingAid) -> None:
    everything = unchanged.answer("auth tokens worthless secret", depth=50)
    docs = unchanged.answer("auth tokens worthless secret", depth=50, corpora=["docs"])

    assert SECRET in [claim.text for claim in everything.claims]
    assert {claim.corpus for claim in docs.claims} == {"docs"}
    assert docs.gaps == ["worthless", "secret"]
    assert unchanged.passages(the_id(SECRET, "secret"), ["docs"]) is None


def test_a_word_is_no_gap_where_a_claim_far_behind_has_it(make: Callable[..., FindingAid]) -> None:
    aid = make()
    many = " ".join(f"Auth token number {n} belongs to a user of the system." for n in range(120))
    aid.corpora["docs"].source.payloads["many.md"] = f"{many} A zebra may hold one of the tokens, too.\n"  # type: ignore[attr-defined]
    aid.index()

    answer = aid.answer("auth token number user system zebra unicorn", depth=2, corpora=["docs"])

    assert answer.gaps == ["unicorn"]
    assert len(answer.claims) == 2


def test_claims_are_reranked_as_all_hits_are(aid: FindingAid, make: Callable[..., FindingAid]) -> None:
    def seven(_: str, texts: Sequence[str]) -> list[float]:
        return [float("seven" in text) for text in texts]

    reranking = make(search_defaults=SearchDefaults(rerank=seven))  # type: ignore[arg-type]  # a function will do

    assert cited(reranking, "hour expire", depth=1, corpora=["docs"]) == [DAYS]


def test_what_cannot_be_answered_is_refused(unchanged: FindingAid) -> None:
    wrong: list[dict[str, Any]] = [{"depth": 0}, {"depth": 1000}, {"max_chars": 0}, {"query": " ", "depth": 1}]
    for how in wrong:
        with pytest.raises(QueryError):
            unchanged.answer(**{"query": "auth"} | how)


ACTIONS = st.sampled_from([Action.APPROVE, Action.REJECT, Action.ARCHIVE, Action.CONTEST, Action.SUPERSEDE])


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(ACTIONS, st.permutations([TOKENS, HOURS, DAYS, LEDGER])), max_size=4), st.integers(20, 500))
def test_whatever_is_decided_an_answer_cites_only_what_may_be_seen(
    aid: FindingAid, decisions: Sequence[tuple[Action, Sequence[str]]], max_chars: int
) -> None:
    for action, (text, other, *_) in decisions:
        decide(aid, action, text, other if action in {Action.CONTEST, Action.SUPERSEDE} else "")

    answer = aid.answer("auth tokens ledger", depth=9, max_chars=max_chars, corpora=["docs"])

    eligible = aid.eligibility.now()
    quotes = {quote.quote_id: quote for quote in answer.quotes}
    cited_ids = CITATION.findall(answer.answer)
    assert len(answer.answer) <= max_chars
    assert eligible.retracted.isdisjoint([*cited_ids, *(the_id(quote.text) for quote in quotes.values())])
    assert all(found in quotes or aid.passages(found) for found in cited_ids)
    assert all(TEXTS[quote.artifact_id][slice(*quote.span)] == quote.quote for quote in quotes.values())
    assert answer.gaps == aid.answer("auth tokens ledger", depth=1, max_chars=4000, corpora=["docs"]).gaps


# -- answers that do no harm ---------------------------------------------------------------------------

PRINTING = "A printer in the cups of a department is shared. CUPS prints PDF files since version 1.2 of the system."


@pytest.fixture(scope="module")
def meaning(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """An aid with an embedder that knows meaning."""
    claimed = MemorySource({"cups.md": PRINTING, "auth.md": TEXTS["auth.md"], "ledger.md": TEXTS["ledger.md"]})
    plain = MemorySource({"plain.md": "A lease keeps two runs from writing the same artifact, and ends by itself."})
    cut = Chunked(chunk_size=200, overlap=0)
    corpora = {
        "docs": Corpus("docs", claimed, cut, claims=Claiming(ExtractiveClaims())),
        "plain": Corpus("plain", plain, cut),
    }
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("meaning") / "index")), MiniLM(), corpora)
    aid.index()
    return aid


def test_a_question_about_something_else_has_no_answer_though_a_word_of_it_is_there(meaning: FindingAid) -> None:
    found = meaning.answer("who won the 1998 world cup")

    assert (found.answer, found.claims, found.passages) == ("", [], [])
    assert found.note.startswith("nothing that was found states it (looked for: 1998, ")
    assert meaning.answer("how long is an auth token valid").confidence is not None


def test_confidence_tells_a_right_answer_from_a_doubtful_one(meaning: FindingAid) -> None:
    right = meaning.answer("what signs auth tokens")
    doubtful = meaning.answer("which documents can a school print")

    assert (right.confidence, right.standing, right.note, right.passages) == ("medium", "unreviewed", "", ())
    assert doubtful.confidence == "low"
    assert doubtful.note.startswith("weak: this may not answer the question (relevance ")
    assert doubtful.passages[0].artifact_id == "cups.md"


def test_passages_answer_what_no_claim_covers(meaning: FindingAid) -> None:
    found = meaning.answer("when does a lease end by itself")

    quote = found.quotes[0]
    text = meaning.disclose("plain.md", "body", "plain").body or ""
    assert (found.claims, [sentence.kind for sentence in found.sentences]) == ([], ["passage"])
    assert text[slice(*quote.span)] == quote.quote
    assert found.answer == f"{quote.text.removesuffix('.')} [{quote.quote_id}]."
    assert quote.artifact_version == meaning.show("plain.md").artifact_version
    assert meaning.answer("when does a lease end by itself", corpora=["docs"]).answer == ""
    assert meaning.answer("when does a lease end by itself", tiers=["approved"]).answer == ""


def test_a_question_without_a_word_has_no_answer_and_no_passages(meaning: FindingAid) -> None:
    found = meaning.answer("😀")

    assert (found.answer, found.gaps, found.passages) == ("", [], [])


def test_a_question_of_stop_words_alone_is_not_searched_for(meaning: FindingAid) -> None:
    found = meaning.answer("what is it about?")

    assert (found.answer, found.gaps, found.passages, found.confidence) == ("", [], [], None)
    assert found.to_dict()["meta"]["note"].startswith("the question has no words to search for, only stop words")


def test_the_scores_of_an_embedder_that_knows_meaning_count(meaning: FindingAid) -> None:
    assert probe_scores(meaning.searcher.reader(), ["docs"]).meaning


def test_the_scores_of_a_hash_say_nothing_and_words_alone_decide(unchanged: FindingAid) -> None:
    assert not probe_scores(unchanged.searcher.reader(), ["docs"]).meaning
    assert unchanged.answer("auth tokens kubernetes billing invoice refund").claims == []
    assert unchanged.answer("auth tokens kubernetes").claims


def test_a_model_is_not_asked_to_answer_from_claims_about_something_else(meaning: FindingAid) -> None:
    class Eager:
        model = "eager"

        def write(self, query: str, evidence: Any, max_chars: int) -> list[Any]:
            raise AssertionError("asked")

    assert meaning.answer("who won the 1998 world cup", llm=Eager()).answer == ""


# -- a model that writes -------------------------------------------------------------------------------


def test_a_model_is_an_explicit_request_and_never_replaced(
    aid: FindingAid, make: Callable[..., FindingAid], server: OpenAIServer
) -> None:
    answerer = OpenAIAnswerer(model="small", base_url=server.base_url, api_key="k", retries=0)
    server.answer = lambda _: {
        "sentences": [
            {"text": "A token of auth expires after one hour.", "evidence": [1]},
            {"text": "Auth is magic.", "evidence": [99]},
        ]
    }

    answer = make(answerer=answerer).answer("expire hour", llm=True, corpora=["docs"])

    assert answer.answer == f"A token of auth expires after one hour [{the_id(HOURS)}]."
    assert (answer.producer, answer.invented) == ("small", ("99",))
    with pytest.raises(ConfigError, match="no model is configured"):
        aid.answer("expire hour", llm=True)
    with pytest.raises(ModelError):
        aid.answer(
            "expire hour", llm={"kind": "openai", "model": "x", "base_url": "http://127.0.0.1:9/v1", "retries": 0}
        )


# -- provenance ----------------------------------------------------------------------------------------


def test_why_walks_from_a_claim_to_its_source_and_names_what_is_broken(aid: FindingAid) -> None:
    decide(aid, Action.APPROVE, HOURS)

    link = aid.why(the_id(HOURS))[0]

    assert [below.what for below in link.walk()] == ["claim", "evidence", "producer", "artifact", "source", "decision"]
    assert not any(below.broken for below in link.walk())
    source: Any = aid.corpora["docs"].source
    source.payloads["auth.md"] += "More."
    assert [b.what for b in aid.why(the_id(HOURS))[0].walk() if b.broken] == ["source"]
    del source.payloads["auth.md"]
    source.broken.add("auth.md")
    assert "cannot be read" in next(b.broken for b in aid.why(the_id(HOURS))[0].walk() if b.what == "source")


def test_why_knows_records_and_artifacts_too(unchanged: FindingAid) -> None:
    chunk = next(hit for hit in unchanged.search("ledger row", 1, surfaces=["chunk"]))

    assert [b.what for b in unchanged.why(chunk.record_id)[0].walk()] == ["chunk", "artifact", "source"]
    assert [b.what for b in unchanged.why("ledger.md")[0].walk()] == ["artifact", "source"]
    assert not any(b.broken for b in unchanged.why(chunk.record_id)[0].walk())
    with pytest.raises(QueryError, match="'nothing'"):
        unchanged.why("nothing")


class Heading:
    """Writes bullets that are alike, each over all claims."""

    id = "heading"

    def summarize(self, members: Sequence[Member]) -> Draft:
        bullet = Bullet("All of it in short.", tuple(member.claim_id for member in members))
        return Draft((bullet,) * min(3, len(members)), ("auth",))


def test_why_walks_from_a_summary_by_its_bullets_to_the_text(make: Callable[..., FindingAid]) -> None:
    aid = make(nodes=Heading())
    aid.index()
    node = aid.search("in short", 1, surfaces=["summary"], corpora=["docs"], where="artifact_id = 'old.md'")[0]

    walked = list(aid.why(node.record_id)[0].walk())

    assert [b.what for b in walked[:5]] == ["summary node", "producer", "bullet", "claim", "evidence"]
    assert {b.said for b in walked if b.what == "evidence"} == {DAYS, TOKENS}
    assert not any(b.broken for b in walked)
    assert [(n.id, n.text) for n in aid.impact("old.md").nodes] == [(walked[0].id, node.text)]
    decide(aid, Action.ARCHIVE, DAYS)
    with pytest.raises(QueryError):
        aid.why(node.record_id)
    assert aid.impact("old.md").nodes == []


def test_who_may_look_into_one_corpus_is_told_of_no_other(unchanged: FindingAid) -> None:
    for wanted in (the_id(SECRET, "secret"), "s.md"):
        with pytest.raises(QueryError, match="is published") as error:
            unchanged.why(wanted, ["docs"])
        assert "secret" not in str(error.value)
        assert unchanged.why(wanted)
    with pytest.raises(QueryError, match=r"^no summary node or artifact 's\.md'$"):
        unchanged.summary_node("s.md", "docs")
    with pytest.raises(QueryError, match=r"set corpora\.secret\.summary_nodes"):
        unchanged.summary_node("s.md")


def test_impact_has_all_that_stands_on_an_artifact(aid: FindingAid) -> None:
    decide(aid, Action.CONTEST, HOURS, DAYS)

    found = aid.impact("auth.md")

    assert {claim.text: claim.also for claim in found.claims} == {
        "Nothing else is said here about it.": (), TOKENS: ("old.md",), HOURS: ()
    }  # fmt: skip
    assert found.records["claim"] == len(found.claims)
    assert [decision["action"] for decision in found.decisions] == ["contest"]


# -- the command line ----------------------------------------------------------------------------------


@pytest.fixture
def asked(cli: Cli, ready_made: ReadyMade) -> Cli:
    for name, text in TEXTS.items():
        cli.write(name, text)
    cli.settings["corpora"]["docs"]["claims"] = True
    ready_made("asked", lambda: cli.run("index"))
    cli.configure()
    return cli


def test_the_command_shows_sentences_and_below_them_their_claims(asked: Cli) -> None:
    shown = asked.run("answer", "ledger row zebra").stdout.splitlines()

    assert shown[0] == "The ledger keeps one row an artifact [1]."
    assert shown[2] == f"[1] {the_id(LEDGER)}  accepted without review"
    assert shown[3].startswith("    docs/ledger.md [")
    assert LEDGER in shown[3]
    assert shown[-1] == "not covered: zebra"
    assert shown[-3] == "confidence medium, relevance 80%, claims unreviewed"
    assert shown[-2] == "not reviewed by a person: 1 of 1 sentences"
    assert "no answer" in asked.run("answer", "zebra").stdout


def test_the_command_limits_the_answer_as_it_is_shown(asked: Cli) -> None:
    whole = asked.run("answer", "auth tokens", "--depth", "2").stdout.split("\n\n")[0]
    length = str(len(whole))

    assert whole.endswith("[2].")
    assert asked.run("answer", "auth tokens", "--depth", "2", "--max-chars", length).stdout.startswith(whole)
    short = asked.run("answer", "auth tokens", "--depth", "2", "--max-chars", str(len(whole) - 1)).stdout
    assert "[2]." not in short
    assert "left out for length" in short
    assert len(asked.json("answer", "auth tokens", "--depth", "2", "--max-chars", length)["answer"]) <= len(whole)


def test_a_gated_answer_cites_what_a_person_approved_and_others_say_what_nobody_reviewed(asked: Cli) -> None:
    asked.run("claims", "approve", the_id(HOURS))

    by_default = asked.run("answer", "auth tokens expire").stdout
    open_json = asked.json("answer", "auth tokens expire")
    asked.settings["review"] = {"answer_from": "gated"}
    gated = asked.run("answer", "auth tokens expire").stdout
    gated_json = asked.json("answer", "auth tokens expire")

    sentences = len(open_json["meta"]["sentences"])
    assert sentences > 1
    assert open_json["meta"]["unreviewed"] == sentences - 1
    assert f"not reviewed by a person: {sentences - 1} of {sentences} sentences" in by_default
    assert [claim["text"] for claim in gated_json["claims"]] == [HOURS]
    assert gated_json["meta"]["unreviewed"] == 0
    assert "not reviewed" not in gated
    asked.settings["review"] = {"answer_from": "open"}
    refused = asked.run("answer", "auth tokens expire").output
    assert "review.answer_from: expected gated, or a list of approved, policy, unreviewed" in refused


def test_where_there_is_no_answer_the_files_that_are_not_read_are_counted(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    cli.write("ledger.md", TEXTS["ledger.md"])
    for name in ("minutes.doc", "old/minutes.doc", "all.7z", "cut.md"):
        cli.write(name, b"\xd0\xcf\x11\xe0\x00" * 300)
    cli.write("broken.pdf", b"%PDF-1.7 and nothing more")
    cli.run("index")

    said = cli.run("answer", "zebra").stdout

    assert "not read here, see findingaid status: 2 .doc, 1 .7z, 1 .md, 1 .pdf\n" in said
    assert cli.json("answer", "zebra")["meta"]["unread"] == "2 .doc, 1 .7z, 1 .md, 1 .pdf"
    assert cli.json("answer", "ledger row")["meta"]["unread"] == ""


def test_the_command_says_that_a_question_has_no_word_to_look_for(asked: Cli) -> None:
    assert asked.run("answer", "what is it").stdout.startswith("no answer: the question has no words to search for")


def test_show_prints_the_passage_with_the_quote_marked(asked: Cli) -> None:
    shown = asked.run("show", the_id(UMLAUT)).stdout

    assert f">>{UMLAUT}<<" in shown
    assert "docs/ledger.md:5" in shown
    assert asked.json("show", the_id(UMLAUT))["passages"][0]["quote"] == UMLAUT


def test_why_and_impact_name_files_and_what_is_broken(asked: Cli) -> None:
    whole = asked.run("why", the_id(LEDGER))
    asked.write("ledger.md", "something else")
    broken = asked.run("why", the_id(LEDGER))

    assert (whole.exit_code, broken.exit_code) == (0, 1)
    assert str(asked.docs / "ledger.md") in whole.stdout
    assert "BROKEN: its content has changed since" in broken.stdout
    assert f"  {the_id(LEDGER)}  {LEDGER}" in asked.run("impact", "ledger.md").stdout


def test_an_answer_without_sentences_says_whether_there_is_no_claim_or_no_room(asked: Cli) -> None:
    assert "no answer: nothing that was found states it" in asked.run("answer", "a zebra").stdout
    assert "no sentence fits" in asked.run("answer", "ledger row", "--max-chars", "10").stdout


def write_cases(asked: Cli, *cases: Mapping[str, Any]) -> str:
    path = asked.folder / "cases.yaml"
    path.write_text(yaml.safe_dump(list(cases)))
    return str(path)


def test_answers_are_graded_by_known_evidence(asked: Cli) -> None:
    cases = write_cases(
        asked,
        {"query": "ledger row?", "expected": "docs/ledger.md", "answer": "one row an artifact"},
        {"query": "rotating zebra", "expected": ["docs/auth.md", "docs/old.md"]},
    )

    found = asked.json("eval", "answers", "--set", cases)

    scores = {name: score["value"] for name, score in found["scores"].items() if score}
    assert scores == {
        "supported": 1.0, "evidence": 1.0, "cited well": 1.0, "gaps right": 1.0, "reference": 1.0, "answered": 1.0
    }  # fmt: skip
    assert found["scores"]["reference"]["n"] == 1
    assert "supported" in asked.run("eval", "answers", "--set", cases, "-n", "1").stdout


def test_citations_and_refusals_are_measured_by_gold_sentences(cli: Cli) -> None:
    cli.write("a.md", f"{TOKENS} {HOURS} {LEDGER}")
    cli.run("index")
    cases: list[dict[str, Any]] = [
        {"query": "auth token", "expected": "docs/a.md", "gold_sentences": [TOKENS]},
        {"query": "ledger row", "expected": "docs/a.md", "gold_sentences": [LEDGER, HOURS]},
        {"query": "kubernetes billing", "answerable": False},
    ]
    path = write_cases(cli, *cases)

    found = cli.json("eval", "answers", "--set", path, "--judge", "lexical", "--depth", "2")

    values = {name: score["value"] for name, score in found["scores"].items() if score}
    assert (values["citation precision"], values["citation recall"]) == (0.75, 0.75)
    assert (values["AUROC"], values["refusal precision"], values["refusal recall"]) == (1, 1, 1)
    assert values["judged"] == 1
    assert cli.json("eval", "--set", path)["evaluations"][0]["n"] == 2
    refused = cli.run(
        "eval", "answers", "--set", write_cases(cli, cases[0] | {"gold_sentences": ["Nobody said this."]})
    )
    assert "gold sentence 'Nobody said this.' is in none of the expected artifacts" in refused.output
    assert refused.exit_code
