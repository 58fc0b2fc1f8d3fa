"""Answers as pure functions: terms, clauses, selection, truncation, and limits on a model's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid.claims.model import ClaimStatus, Evidence, Review, Tier, Truth, claim_id
from findingaid.errors import ModelError
from findingaid.protocols import Written
from findingaid.query.answers.answer import CITATION, Answer, CitableClaim, Contradiction, Place
from findingaid.query.answers.compose import EvidenceSet, compose, repeats
from findingaid.query.answers.generation import OpenAIAnswerer, generate_answer, verify_sentences
from findingaid.query.answers.relevance import UNSTATED, Measured, estimate_relevance
from findingaid.query.answers.verification import LexicalVerifier
from findingaid.testing import OpenAIServer
from findingaid.text.analyzer import Lexical
from findingaid.text.clauses import first_clause
from findingaid.text.sentences import whole_sentences
from findingaid.text.words import salient, stems

STABLE = ClaimStatus(Review.APPROVED, Truth.STABLE)


def make_claim(text: str, standing: ClaimStatus = STABLE, tier: Tier = Tier.APPROVED, **changed: Any) -> CitableClaim:
    place = Place("a.md", claim_id("record", text), (0, len(text)), text, Evidence.VERIFIED)
    return CitableClaim(claim_id("docs", text), "docs", text, tier, standing, (place,), **changed)


def contested(text: str, *others: str, tier: Tier = Tier.APPROVED) -> CitableClaim:
    by = tuple(claim_id("docs", other) for other in others)
    return make_claim(text, ClaimStatus(Review.APPROVED, Truth.CONTESTED, contested_by=by), tier)


def ids(answer: Answer) -> list[str]:
    return [claim.claim_id for claim in answer.claims]


# -- the words of a question ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("How does auth/jwt work?", ["auth", "jwt", "work"]),
        ("C++ and C# in the UI", ["C++", "C#", "UI"]),
        ("What's Go, and what is R?", ["Go", "R"]),
        ("does IT know?", ["IT", "know"]),
        ("HOW DOES IT WORK", ["WORK"]),
        ("snake_case of v1.2", ["snake", "case", "v1.2"]),
        ("tokens, Token; TOKENS", ["tokens"]),
        ("what is it?", ["what", "is", "it"]),
        ("How hot should the water be, and how many cups?", ["water", "cups"]),
        ("how hot is it?", ["hot"]),
        ("hot water", ["hot", "water"]),
    ],
)
def test_the_terms_of_a_question_are_its_words_that_say_something(query: str, terms: list[str]) -> None:
    assert list(salient(query).values()) == terms


def test_a_term_is_covered_by_another_form_of_it_and_not_by_a_part_of_a_word() -> None:
    assert salient("tokens").keys() <= stems(["a token"])
    assert salient("art").keys().isdisjoint(stems(["we start"]))
    assert salient("C++").keys().isdisjoint(stems(["plain C"]))
    assert salient("Go").keys() <= stems(["written in Go."])
    assert salient("does IT know?").keys() <= stems(["IT knows"])
    assert salient("does IT know?").keys() - stems(["it knows"]) == {"IT"}


def test_words_are_stemmed_as_the_index_stems_them() -> None:
    german = Lexical("German")

    assert salient("Häuser", german).keys() <= stems(["des Hauses"], german)
    assert salient("tokens", Lexical(stem=False)).keys().isdisjoint(stems(["token"], Lexical(stem=False)))


# -- one clause a claim --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("Tokens expire after 1.5 hours; clocks are read in UTC.", "Tokens expire after 1.5 hours"),
        ("The ledger has one row an artifact. It is a table of Lance.", "The ledger has one row an artifact."),
        ("Dr. Smith of the team owns auth. He sits in room two.", "Dr. Smith of the team owns auth."),
    ],
)
def test_a_claim_is_shortened_to_its_first_clause(text: str, clause: str) -> None:
    assert first_clause(text) == clause


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Smith owns auth",
        "It weighs approx. 5 kg of gold dust and more",
        "All tokens expire after an hour; except those of admins",
        "All tokens expire after an hour. But those of admins do not.",
        "All tokens are signed by us; they aren't encrypted at all",
        "The team of three is: Ada of auth; Ben of billing; Cy of the rest",
        "The first key opens it (of two; the second closes it again)",
        "Run `make all; make test` to see it. That is all there is.",
        "The old API is served by us; this was true until May of 2019",
        "Why is it slow? It reads every file of it.",
    ],
)
def test_a_claim_that_would_lose_meaning_stays_whole(text: str) -> None:
    assert first_clause(text) == text


def test_a_clause_keeps_the_words_that_were_asked_for() -> None:
    text = "All tokens are signed by us. JWT is the format they have."

    assert first_clause(text, salient("jwt").keys()) == text
    assert first_clause(text, salient("signed").keys()) == "All tokens are signed by us."


@given(st.text(alphabet="ab A.;:()`\"'é1", max_size=60))
def test_a_clause_is_how_the_claim_begins(text: str) -> None:
    folded = " ".join(text.split())

    assert folded.startswith(first_clause(text))
    assert "".join(whole_sentences(folded)) == folded


# -- sentences -----------------------------------------------------------------------------------------

AUTH = ["Auth uses JWT tokens", "Auth keys are rotated every day", "Auth logs go to the audit table"]


def test_every_claim_is_a_sentence_with_its_citation() -> None:
    answer = compose(EvidenceSet("auth tokens", [make_claim(text) for text in AUTH]), 3, 4000)

    assert answer.answer == " ".join(f"{text} [{claim_id('docs', text)}]." for text in AUTH)
    assert answer.confidence == "high"
    assert answer.gaps == []


def test_what_nothing_covers_is_no_answer() -> None:
    answer = compose(EvidenceSet("kubernetes billing", [make_claim(text) for text in AUTH]), 3, 4000)

    assert (answer.answer, ids(answer), answer.confidence) == ("", [], None)
    assert answer.gaps == ["kubernetes", "billing"]


def test_a_claim_without_room_gives_its_place_to_the_next() -> None:
    long, short = make_claim("Auth is a very long story " + "and so on " * 30), make_claim("Auth uses JWT")

    answer = compose(EvidenceSet("auth", [long, short]), 1, 100)

    assert ids(answer) == [short.claim_id]
    assert answer.cut == [long.claim_id]


def test_what_shares_one_word_of_many_is_not_said_unless_nothing_else_has_it() -> None:
    hour = make_claim("Tokens expire after one hour")
    row, key = make_claim("There is one row"), make_claim("There is one key")

    assert ids(compose(EvidenceSet("tokens one hour", [hour, row]), 3, 4000)) == [hour.claim_id]
    assert ids(compose(EvidenceSet("tokens one hour, key", [hour, row, key]), 3, 4000)) == [hour.claim_id, key.claim_id]


def test_gaps_are_of_all_that_was_found_not_of_what_is_said() -> None:
    found = EvidenceSet("auth audit", [make_claim(text) for text in AUTH])

    assert compose(found, 1, 4000).gaps == []
    assert compose(found, 3, 1).gaps == []


@pytest.mark.parametrize(
    ("above", "truths", "confidence"),
    [
        (9.0, [Truth.WORKING], "medium"),
        (9.0, [Truth.ACTIONABLE], "medium"),
        (9.0, [Truth.STABLE, Truth.ACTIONABLE], "medium"),
        (9.0, [Truth.STABLE, Truth.CONTESTED], "low"),
        (5.5, [Truth.WORKING], "medium"),
        (5.5, [Truth.STABLE], "high"),
        (5.5, [Truth.STABLE, Truth.WORKING], "medium"),
        (4.0, [Truth.STABLE], "low"),
        (2.0, [Truth.STABLE], None),
        (9.0, [Truth.CONTESTED], "low"),
    ],
)
def test_confidence_follows_the_dense_score_and_the_decisions_on_the_claims(
    above: float, truths: list[Truth], confidence: str | None
) -> None:
    claims = [
        replace(make_claim(t, ClaimStatus(truth=truth)), above=above) for t, truth in zip(AUTH, truths, strict=False)
    ]

    answer = compose(EvidenceSet("auth", claims), 3, 4000)

    assert answer.confidence == confidence
    assert answer.weak is (confidence is None or above == 4.0)


@pytest.mark.parametrize("tier", [Tier.POLICY, Tier.UNREVIEWED])
def test_claims_that_no_person_reviewed_give_at_most_medium_confidence_however_well_they_answer(tier: Tier) -> None:
    claims = [replace(make_claim(text, ClaimStatus(), tier), above=12.0) for text in AUTH]

    answer = compose(EvidenceSet("auth", claims), 3, 4000)

    assert (answer.confidence, answer.standing) == ("medium", "unreviewed")
    assert answer.relevance > 0.99


def test_the_standing_of_an_answer_is_that_of_its_weakest_claim() -> None:
    stable, actionable, working = (
        make_claim(text, ClaimStatus(Review.APPROVED, truth))
        for text, truth in zip(AUTH, (Truth.STABLE, Truth.ACTIONABLE, Truth.WORKING), strict=True)
    )
    unreviewed = make_claim("Auth is down on Sundays", ClaimStatus(), Tier.POLICY)
    cited = [stable, actionable, working, unreviewed, contested("Auth is never down")]

    standings = [compose(EvidenceSet("auth", cited[: n + 1]), 9, 4000).standing for n in range(len(cited))]

    assert standings == ["stable", "actionable", "working", "unreviewed", "contested"]
    assert compose(EvidenceSet("auth", []), 3, 4000).standing is None


def test_an_answer_to_a_question_with_a_gap_has_no_high_confidence() -> None:
    claims = [replace(make_claim(AUTH[0], ClaimStatus(truth=Truth.STABLE)), above=12.0)]

    assert compose(EvidenceSet("auth", claims), 3, 4000).confidence == "high"
    assert compose(EvidenceSet("auth zebras", claims), 3, 4000).confidence == "medium"


@given(st.floats(0, 1), st.floats(-20, 20), st.floats(0, 1), st.floats(0, 20))
def test_relevance_is_a_probability_that_grows_with_words_and_score(
    covered: float, above: float, more: float, higher: float
) -> None:
    relevance = estimate_relevance(Measured(covered, above))

    assert 0 <= relevance <= 1
    assert estimate_relevance(Measured(min(1, covered + more), above + higher)) >= relevance
    assert estimate_relevance(Measured(min(1, covered + more))) >= estimate_relevance(Measured(covered))
    assert estimate_relevance(Measured(covered, above, stated=0.0)) <= min(relevance, UNSTATED)


def test_a_weak_answer_and_one_without_sentences_say_so() -> None:
    weak = compose(EvidenceSet("auth of zebras", [replace(make_claim(AUTH[0]), above=6.5)]), 3, 4000)
    none = compose(EvidenceSet("auth of zebras", [replace(make_claim(AUTH[0]), above=4.0)]), 3, 4000)

    assert weak.note == "weak: this may not answer the question (relevance 29%)"
    assert (none.answer, none.claims) == ("", [])
    assert none.note == "nothing that was found states it (looked for: auth, zebras)"
    assert none.to_dict()["meta"]["relevance"] == pytest.approx(0.066, abs=0.001)


@pytest.mark.parametrize("query", ["what is it?", "WHAT IS IT", "how", "😀"])
def test_a_question_of_stop_words_alone_says_that_it_has_nothing_to_look_for(query: str) -> None:
    answer = compose(EvidenceSet(query, [make_claim("What it is")]), 3, 4000)

    assert (answer.answer, answer.gaps, answer.relevance) == ("", [], 0)
    assert answer.note.startswith("the question has no words to search for")
    assert compose(EvidenceSet("what is IT?", [make_claim("IT is a team")]), 3, 4000).claims


def test_the_limit_counts_numbered_citations_as_they_are_shown() -> None:
    found = EvidenceSet("auth", [make_claim(text) for text in AUTH])
    shown = "Auth uses JWT tokens [1]. Auth keys are rotated every day [2]. Auth logs go to the audit table [3]."

    assert compose(found, 3, len(shown), numbered=True).answer == shown
    assert len(compose(found, 3, len(shown) - 1, numbered=True).claims) == 2
    assert len(compose(found, 3, len(shown)).claims) == 1
    assert len(compose(found, 3, len(shown)).answer) <= len(shown)


def test_an_answer_counts_its_sentences_that_no_person_reviewed() -> None:
    approved, policy, unreviewed = (make_claim(text, tier=tier) for text, tier in zip(AUTH, Tier, strict=True))

    answer = compose(EvidenceSet("auth", [approved, policy, unreviewed]), 3, 4000)
    merged = judged(EvidenceSet("auth", [approved, policy]), ("Auth uses JWT tokens.", [approved.claim_id]), (
        "Auth uses JWT tokens and keys rotated every day.", [approved.claim_id, policy.claim_id]
    ))  # fmt: skip

    assert (len(answer.sentences), answer.unreviewed) == (3, 2)
    assert (len(merged.sentences), merged.to_dict()["meta"]["unreviewed"]) == (2, 1)


def test_both_sides_of_a_contradiction_are_shown_or_neither() -> None:
    one, other = contested("Auth uses JWT", "Auth uses cookies"), contested("Auth uses cookies", "Auth uses JWT")
    found = EvidenceSet("JWT", [one], [other])

    whole = compose(found, 1, 4000)
    short = compose(found, 1, 60)

    assert whole.answer == f"Auth uses JWT [{one.claim_id}]. Contested by: Auth uses cookies [{other.claim_id}]."
    assert whole.contradictions == [
        Contradiction(one.claim_id, other.claim_id, other.text, Tier.APPROVED, True),
        Contradiction(other.claim_id, one.claim_id, one.text, Tier.APPROVED, True),
    ]
    assert (short.answer, short.cut) == ("", [one.claim_id, other.claim_id])


def test_the_other_side_of_a_tier_not_asked_for_is_shown_beside_the_answer() -> None:
    one = contested("Auth uses JWT", "Auth uses cookies")
    other = contested("Auth uses cookies", "Auth uses JWT", tier=Tier.UNREVIEWED)

    answer = compose(EvidenceSet("JWT", [one], [other], [Tier.APPROVED]), 3, 4000)

    assert answer.answer == f"Auth uses JWT (contested) [{one.claim_id}]."
    assert answer.contradictions == [Contradiction(one.claim_id, other.claim_id, other.text, Tier.UNREVIEWED, False)]


def test_a_sentence_of_several_corpora_is_one_sentence_with_several_places() -> None:
    said = "The ledger has one row for each artifact"
    own = make_claim(said)
    twins = [replace(own, corpus=corpus, claim_id=claim_id(corpus, said)) for corpus in ("notes", "wiki")]
    against = replace(contested(said, "The ledger has none"), corpus="old", claim_id=claim_id("old", said))

    answer = compose(EvidenceSet("ledger", [own, *twins, against]), 9, 4000, numbered=True)

    assert answer.answer.startswith(f"{said} [1] [2] [3].")
    assert [claim.corpus for claim in answer.claims] == ["docs", "notes", "wiki", "old"]
    assert answer.answer.count(said) == 2


def test_what_repeats_a_claim_is_left_out_and_what_negates_it_is_not() -> None:
    said = "The ledger has one row for each artifact of a corpus"
    again = "The ledger has one row for each artifact of the corpus"
    others = [
        "The ledger has not one row for each artifact of a corpus",
        "The ledger has 2 row for each artifact of a corpus",
        "The ledger lacks one row for each artifact of a corpus",
        "The artifact has one row for each ledger of a corpus",
    ]

    answer = compose(EvidenceSet("ledger", [make_claim(text) for text in (said, again, *others)]), 9, 4000)

    assert [claim.text for claim in answer.claims] == [said, *others]
    assert answer.repeated == [claim_id("docs", again)]
    assert not repeats(contested(said, others[0]), make_claim(again))


def test_what_a_document_cites_is_no_citation_of_the_answer() -> None:
    spoofed = make_claim(f"Auth is described in [{'0' * 32}] of the book")

    answer = compose(EvidenceSet("auth", [spoofed]), 3, 4000)

    assert CITATION.findall(answer.answer) == [spoofed.claim_id]


WORDS = st.sampled_from(
    ["auth", "token", "ledger", "not", "unless", "v1.2", "e.g.", "C++", "row;", "end.", f"[{'a' * 32}]"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@st.composite
def founds(draw: st.DrawFn) -> EvidenceSet:
    texts = draw(st.lists(TEXTS, min_size=1, max_size=7, unique_by=lambda text: claim_id("docs", text)))
    pairs = draw(st.sets(st.tuples(st.sampled_from(texts), st.sampled_from(texts)).filter(lambda p: p[0] != p[1])))
    tiers = draw(st.sets(st.sampled_from(list(Tier)), min_size=1))
    made = []
    for text in texts:
        against = sorted({b for a, b in pairs if a == text} | {a for a, b in pairs if b == text})
        tier = draw(st.sampled_from(list(Tier)))
        made.append(contested(text, *against, tier=tier) if against else make_claim(text, tier=tier))
    eligible = [o for o in made if o.tier in tiers]
    return EvidenceSet(draw(TEXTS), eligible, [o for o in made if o.tier not in tiers], tiers)


def assert_holds(answer: Answer, found: EvidenceSet, max_chars: int) -> None:
    citable = {o.claim_id for o in found.claims}
    assert len(answer.answer) <= max_chars
    assert set(CITATION.findall(answer.answer)) == set(ids(answer)) <= citable
    assert all(sentence.claim_ids for sentence in answer.sentences)
    assert set(answer.cut).isdisjoint(ids(answer))
    for one in answer.claims:
        for other in one.standing.contested_by:
            assert other in ids(answer) or other not in citable


@given(founds(), st.integers(1, 8), st.integers(1, 600))
def test_an_answer_cites_only_what_may_be_cited_within_its_budget(found: EvidenceSet, depth: int, chars: int) -> None:
    assert_holds(compose(found, depth, chars), found, chars)
    numbered = compose(found, depth, chars, numbered=True)
    assert len(numbered.answer) <= chars
    assert len(numbered.claims) >= bool(compose(found, depth, chars).claims)


@given(founds(), st.integers(1, 8), st.integers(1, 600), st.integers(1, 600))
def test_another_budget_changes_no_gap(found: EvidenceSet, depth: int, one: int, other: int) -> None:
    assert compose(found, depth, one).gaps == compose(found, depth, other).gaps


@given(founds(), st.integers(1, 8), st.integers(1, 600), st.data())
def test_whatever_a_model_writes_only_what_was_offered_is_cited(
    found: EvidenceSet, depth: int, chars: int, data: st.DataObject
) -> None:
    known = [*(o.claim_id for o in found.claims), *(o.claim_id for o in found.contesting), "0" * 32, "c1"]
    sentences = data.draw(st.lists(st.builds(Written, TEXTS, st.lists(st.sampled_from(known), max_size=3)), max_size=6))
    claims = {o.claim_id: o for o in found.relevant[:depth]}

    answer = verify_sentences(found, claims, sentences, chars, "model", LexicalVerifier())

    assert_holds(answer, found, chars)
    assert set(answer.invented).isdisjoint(claims)


# -- sentences of a model ------------------------------------------------------------------------------


def judged(found: EvidenceSet, *sentences: tuple[str, Sequence[str]], max_chars: int = 4000) -> Answer:
    citable = {o.claim_id: o for o in found.claims}
    return verify_sentences(
        found, citable, [Written(text, claims) for text, claims in sentences], max_chars, "model", LexicalVerifier()
    )


def test_a_sentence_whose_only_citation_is_invented_goes_and_its_id_is_told() -> None:
    found = EvidenceSet("auth", [make_claim(text) for text in AUTH])
    good = found.claims[0].claim_id

    answer = judged(found, ("Auth uses JWT tokens.", [good, "0" * 32]), ("Auth uses magic.", ["1" * 32]))

    assert answer.answer == f"Auth uses JWT tokens [{good}]."
    assert answer.invented == ("0" * 32, "1" * 32)
    assert [(r.text, r.invented) for r in answer.refused] == [("Auth uses magic.", ("1" * 32,))]


class Counting:
    """Verifier that accepts all sentences, and keeps them."""

    model = "counting"

    def __init__(self) -> None:
        self.judged: list[str] = []

    def objection(self, sentence: str, evidence: Sequence[str]) -> str:
        self.judged.append(sentence)
        return ""


def test_a_sentence_that_is_repeated_or_does_not_fit_is_neither_verified_nor_shown() -> None:
    found = EvidenceSet("auth", [make_claim(text) for text in AUTH])
    citable, verifier = {o.claim_id: o for o in found.claims}, Counting()
    good = [found.claims[0].claim_id]
    sentences = [Written("Auth uses tokens. " * 50, good), Written("It is said at length. " + "Auth " * 100, good)]

    answer = verify_sentences(found, citable, sentences, 200, "model", verifier)

    assert verifier.judged == ["Auth uses tokens.", "It is said at length."]
    assert [sentence.text for sentence in answer.sentences] == verifier.judged


def test_sentences_are_checked_one_by_one_also_where_the_model_runs_them_together() -> None:
    found = EvidenceSet("auth", [make_claim(text) for text in AUTH])
    good = found.claims[0].claim_id

    answer = judged(found, ("Auth uses JWT tokens. Bananas ripen in autumn sunlight.", [good]))

    assert answer.answer == f"Auth uses JWT tokens [{good}]."
    assert [refused.text for refused in answer.refused] == ["Bananas ripen in autumn sunlight."]


@pytest.mark.parametrize(
    ("sentence", "claim", "reason"),
    [
        ("Tokens expire after an hour", "Tokens expire after one hour", ""),
        ("Tokens expire after 2 hours", "Tokens expire after 1 hours", "its evidence does not contain 2"),
        ("Tokens never expire", "Tokens expire after an hour", "negates its evidence"),
        ("Tokens expire", "Tokens don't expire", "leaves out a negation of its evidence"),
        ("Cookies hold sessions of admins", "Tokens expire after an hour", "its evidence does not support it"),
        ("Tokens expire", "Tokens expire unless renewed", "leaves out “unless” of its evidence"),
        ("Renewed tokens expire", "Tokens expire unless renewed", "leaves out “unless” of its evidence"),
        ("Tokens expire unless they are renewed", "Tokens expire unless renewed", ""),
        ("Tokens do not expire", "Tokens do not expire unless revoked", "leaves out “unless” of its evidence"),
        ("Admins delete files", "Only admins delete files", "leaves out “only” of its evidence"),
        ("Files are deleted by admins alone", "Only admins delete files", ""),
        ("The run fails", "If the disk is full, the run fails", "leaves out “if” of its evidence"),
        ("A full disk makes the run fail", "If the disk is full, the run fails", ""),
        ("Runs of large files fail", "Runs of large files may fail", "leaves out “may” of its evidence"),
        ("Large files might make a run fail", "Runs of large files may fail", ""),
        ("The run of 2019 failed in spring", "The run failed in the spring, in May 2019", ""),
        ("The flag deletes data", "The flag deletes data but is deprecated", "leaves out “deprecated” of its evidence"),
        ("Aro costs nine crowns", "Holm costs nine, Aro twelve", "its evidence states nine of Holm"),
        ("Aro costs 500 SEK", "Holm costs 500 SEK and Aro costs 700 SEK", "its evidence states 500 of Holm"),
        ("Holm costs nine", "Holm costs nine, Aro twelve", ""),
        ("Aro costs twelve", "Holm costs nine, Aro twelve", ""),
        ("Holm paid 500 SEK", "Holm, who lives in Lund, paid 500 SEK", ""),
        ("In May 2019 Holm paid 500 SEK", "Holm paid 500 SEK in May 2019", ""),
        ("The trainer lives in Lund", "The trainer lives in Malmö", "its evidence does not contain Lund"),
        ("Тренер из Казани живёт в Москве", "Живёт в Москве тренер из Казани", ""),
        ("Тренер живёт в Казани", "Тренер живёт в Москве", "its evidence does not contain Казани"),
        ("A lease ends after twelve minutes", "A lease ends after ten minutes", "its evidence does not contain twelve"),
    ],
)
def test_a_sentence_must_say_what_its_claims_say(sentence: str, claim: str, reason: str) -> None:
    assert LexicalVerifier().objection(sentence, [claim]) == reason


def test_a_model_that_writes_nothing_found_no_answer() -> None:
    answer = judged(EvidenceSet("auth", [replace(make_claim(AUTH[0]), above=12.0)]))

    assert (answer.answer, answer.note) == ("", "the model found no answer in its evidence")


def test_the_budget_holds_for_a_model_and_what_contests_a_claim_is_added() -> None:
    one, other = contested("Auth uses JWT", "Auth uses cookies"), contested("Auth uses cookies", "Auth uses JWT")
    found = EvidenceSet("auth", [one, other])

    whole = judged(found, ("Auth uses JWT.", [one.claim_id]))
    short = judged(found, ("Auth uses JWT.", [one.claim_id]), max_chars=60)

    assert ids(whole) == [one.claim_id, other.claim_id]
    assert (whole.confidence, short.answer, short.cut) == ("low", "", [one.claim_id])


def test_a_model_is_shown_the_claims_as_data_and_its_failure_is_no_answer(server: OpenAIServer) -> None:
    found = EvidenceSet("auth", [make_claim(text) for text in AUTH])
    good = found.claims[0].claim_id
    answerer = OpenAIAnswerer(model="small", base_url=server.base_url, api_key="k", retries=0)
    server.answer = lambda _: {"sentences": [{"text": "Auth uses JWT tokens.", "evidence": [1]}]}

    answer = generate_answer(found, answerer, LexicalVerifier(), 3, 4000)

    assert answer.answer == f"Auth uses JWT tokens [{good}]."
    assert answer.producer == "small"
    assert "Evidence 1:" in server.completions[0].content
    server.answer = lambda _: "no JSON of this kind"
    server.schemas = False
    with pytest.raises(ModelError):
        generate_answer(found, answerer, LexicalVerifier(), 3, 4000)


@pytest.mark.parametrize("text", ["", " \u200b", "[1]", "…"])
def test_sentences_without_words_do_not_say_that_nothing_answers(server: OpenAIServer, text: str) -> None:
    found = EvidenceSet("auth", [make_claim(text) for text in AUTH])
    answerer = OpenAIAnswerer(model="small", base_url=server.base_url, api_key="k", retries=0)
    server.answer = lambda _: {"sentences": [{"text": text, "evidence": [1]}]}

    with pytest.raises(ModelError, match="returned sentences without words"):
        generate_answer(found, answerer, LexicalVerifier(), 3, 4000)
    server.answer = lambda _: {"sentences": []}
    assert not generate_answer(found, answerer, LexicalVerifier(), 3, 4000).sentences


def test_a_model_is_not_asked_where_there_is_nothing_to_say(server: OpenAIServer) -> None:
    answerer = OpenAIAnswerer(model="small", base_url=server.base_url, api_key="k")

    answer = generate_answer(
        EvidenceSet("kubernetes", [make_claim(text) for text in AUTH]), answerer, LexicalVerifier(), 3, 4000
    )

    assert (answer.answer, answer.gaps, server.requests) == ("", ["kubernetes"], [])


class Rubbish:
    """Answerer that returns anything."""

    model = "small"

    def __init__(self, returned: object) -> None:
        self.returned = returned

    def write(self, query: str, evidence: Mapping[str, str], max_chars: int) -> Any:
        return self.returned


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        (None, "None"),
        ("Tokens expire.", "'Tokens expire.'"),
        ([("Tokens expire.", ["c"])], r"\('Tokens expire.', \['c'\]\)"),
        ([Written(3, [])], r"Written\(text=3"),  # type: ignore[arg-type]  # the subject of the test
        ([Written("Tokens expire.", "c")], r"Written\(text='Tokens expire.', cited_ids='c'\)"),
        ([Written("Tokens expire.", [3])], r"Written\(text='Tokens expire.', cited_ids=\[3\]\)"),  # type: ignore[list-item]
    ],
)
def test_an_answerer_that_returns_anything_but_sentences_is_a_model_error(returned: object, shown: str) -> None:
    with pytest.raises(
        ModelError, match=rf"^answerer Rubbish: returned {shown}.*, expected Written\(text, cited_ids\)$"
    ):
        generate_answer(
            EvidenceSet("auth", [make_claim(text) for text in AUTH]), Rubbish(returned), LexicalVerifier(), 3, 4000
        )
