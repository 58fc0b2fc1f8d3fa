"""Answers as pure functions: terms, clauses, what is said, what is cut, what a model may say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid.claims.model import Evidence, Review, Standing, Tier, Truth, claim_id
from findingaid.errors import ModelError
from findingaid.model import Written
from findingaid.query.answer import CITATION, Answer, Found, Offer, Place, Side, compose, repeats
from findingaid.query.clauses import clause_of, sentences_of
from findingaid.query.terms import salient, stems
from findingaid.query.writing import OpenAIAnswerer, checked, unsupported, written
from findingaid.store.lexical import Lexical
from findingaid.testing import OpenAIServer

STABLE = Standing(Review.APPROVED, Truth.STABLE)


def offer(text: str, standing: Standing = STABLE, tier: Tier = Tier.APPROVED, **changed: Any) -> Offer:
    place = Place("a.md", claim_id("record", text), (0, len(text)), text, Evidence.VERIFIED)
    return Offer(claim_id("docs", text), "docs", text, tier, standing, (place,), **changed)


def contested(text: str, *others: str, tier: Tier = Tier.APPROVED) -> Offer:
    by = tuple(claim_id("docs", other) for other in others)
    return offer(text, Standing(Review.APPROVED, Truth.CONTESTED, contested_by=by), tier)


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
    assert clause_of(text) == clause


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
    assert clause_of(text) == text


def test_a_clause_keeps_the_words_that_were_asked_for() -> None:
    text = "All tokens are signed by us. JWT is the format they have."

    assert clause_of(text, salient("jwt").keys()) == text
    assert clause_of(text, salient("signed").keys()) == "All tokens are signed by us."


@given(st.text(alphabet="ab A.;:()`\"'é1", max_size=60))
def test_a_clause_is_how_the_claim_begins(text: str) -> None:
    folded = " ".join(text.split())

    assert folded.startswith(clause_of(text))
    assert "".join(sentences_of(folded)) == folded


# -- what is said --------------------------------------------------------------------------------------

AUTH = ["Auth uses JWT tokens", "Auth keys are rotated every day", "Auth logs go to the audit table"]


def test_every_claim_is_a_sentence_with_its_citation() -> None:
    answer = compose(Found("auth tokens", [offer(text) for text in AUTH]), 3, 4000)

    assert answer.answer == " ".join(f"{text} [{claim_id('docs', text)}]." for text in AUTH)
    assert answer.confidence == "high"
    assert answer.gaps == []


def test_what_nothing_covers_is_no_answer() -> None:
    answer = compose(Found("kubernetes billing", [offer(text) for text in AUTH]), 3, 4000)

    assert (answer.answer, ids(answer), answer.confidence) == ("", [], None)
    assert answer.gaps == ["kubernetes", "billing"]


def test_a_claim_without_room_gives_its_place_to_the_next() -> None:
    long, short = offer("Auth is a very long story " + "and so on " * 30), offer("Auth uses JWT")

    answer = compose(Found("auth", [long, short]), 1, 100)

    assert ids(answer) == [short.claim_id]
    assert answer.cut == [long.claim_id]


def test_what_shares_one_word_of_many_is_not_said_unless_nothing_else_has_it() -> None:
    hour, row, key = offer("Tokens expire after one hour"), offer("There is one row"), offer("There is one key")

    assert ids(compose(Found("tokens one hour", [hour, row]), 3, 4000)) == [hour.claim_id]
    assert ids(compose(Found("tokens one hour, key", [hour, row, key]), 3, 4000)) == [hour.claim_id, key.claim_id]


def test_gaps_are_of_all_that_was_found_not_of_what_is_said() -> None:
    found = Found("auth audit", [offer(text) for text in AUTH])

    assert compose(found, 1, 4000).gaps == []
    assert compose(found, 3, 1).gaps == []


@pytest.mark.parametrize(
    ("truths", "confidence"),
    [
        ([Truth.STABLE, Truth.STABLE], "high"),
        ([Truth.STABLE, Truth.WORKING], "medium"),
        ([Truth.ACTIONABLE, Truth.STABLE], "medium"),
        ([Truth.CONTESTED, Truth.WORKING], "low"),
    ],
)
def test_confidence_is_that_of_the_weakest_claim(truths: list[Truth], confidence: str) -> None:
    offers = [offer(text, Standing(truth=truth)) for text, truth in zip(AUTH, truths, strict=False)]

    assert compose(Found("auth", offers), 3, 4000).confidence == confidence


def test_both_sides_of_a_contradiction_are_shown_or_neither() -> None:
    one, other = contested("Auth uses JWT", "Auth uses cookies"), contested("Auth uses cookies", "Auth uses JWT")
    found = Found("JWT", [one], [other])

    whole = compose(found, 1, 4000)
    short = compose(found, 1, 60)

    assert whole.answer == f"Auth uses JWT [{one.claim_id}]. Against this stands: Auth uses cookies [{other.claim_id}]."
    assert whole.sides == [
        Side(one.claim_id, other.claim_id, other.text, Tier.APPROVED, True),
        Side(other.claim_id, one.claim_id, one.text, Tier.APPROVED, True),
    ]
    assert (short.answer, short.cut) == ("", [one.claim_id, other.claim_id])


def test_the_other_side_of_a_tier_not_asked_for_is_shown_beside_the_answer() -> None:
    one = contested("Auth uses JWT", "Auth uses cookies")
    other = contested("Auth uses cookies", "Auth uses JWT", tier=Tier.UNREVIEWED)

    answer = compose(Found("JWT", [one], [other], [Tier.APPROVED]), 3, 4000)

    assert answer.answer == f"Auth uses JWT (contested) [{one.claim_id}]."
    assert answer.sides == [Side(one.claim_id, other.claim_id, other.text, Tier.UNREVIEWED, False)]


def test_what_repeats_a_claim_is_left_out_and_what_negates_it_is_not() -> None:
    said = "The ledger has one row for each artifact of a corpus"
    again = "The ledger has one row for each artifact of the corpus"
    others = [
        "The ledger has not one row for each artifact of a corpus",
        "The ledger has 2 row for each artifact of a corpus",
        "The ledger lacks one row for each artifact of a corpus",
        "The artifact has one row for each ledger of a corpus",
    ]

    answer = compose(Found("ledger", [offer(text) for text in (said, again, *others)]), 9, 4000)

    assert [claim.text for claim in answer.claims] == [said, *others]
    assert answer.repeated == [claim_id("docs", again)]
    assert not repeats(contested(said, others[0]), offer(again))


def test_what_a_document_cites_is_no_citation_of_the_answer() -> None:
    spoofed = offer(f"Auth is described in [{'0' * 32}] of the book")

    answer = compose(Found("auth", [spoofed]), 3, 4000)

    assert CITATION.findall(answer.answer) == [spoofed.claim_id]


WORDS = st.sampled_from(
    ["auth", "token", "ledger", "not", "unless", "v1.2", "e.g.", "C++", "row;", "end.", f"[{'a' * 32}]"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@st.composite
def founds(draw: st.DrawFn) -> Found:
    texts = draw(st.lists(TEXTS, min_size=1, max_size=7, unique_by=lambda text: claim_id("docs", text)))
    pairs = draw(st.sets(st.tuples(st.sampled_from(texts), st.sampled_from(texts)).filter(lambda p: p[0] != p[1])))
    tiers = draw(st.sets(st.sampled_from(list(Tier)), min_size=1))
    made = []
    for text in texts:
        against = sorted({b for a, b in pairs if a == text} | {a for a, b in pairs if b == text})
        tier = draw(st.sampled_from(list(Tier)))
        made.append(contested(text, *against, tier=tier) if against else offer(text, tier=tier))
    eligible = [o for o in made if o.tier in tiers]
    return Found(draw(TEXTS), eligible, [o for o in made if o.tier not in tiers], tiers)


def assert_holds(answer: Answer, found: Found, max_chars: int) -> None:
    citable = {o.claim_id for o in found.offers}
    assert len(answer.answer) <= max_chars
    assert set(CITATION.findall(answer.answer)) == set(ids(answer)) <= citable
    assert all(sentence.claim_ids for sentence in answer.sentences)
    assert set(answer.cut).isdisjoint(ids(answer))
    for one in answer.claims:
        for other in one.standing.contested_by:
            assert other in ids(answer) or other not in citable


@given(founds(), st.integers(1, 8), st.integers(1, 600))
def test_an_answer_cites_only_what_may_be_cited_within_its_budget(found: Found, depth: int, chars: int) -> None:
    assert_holds(compose(found, depth, chars), found, chars)


@given(founds(), st.integers(1, 8), st.integers(1, 600), st.integers(1, 600))
def test_another_budget_changes_no_gap(found: Found, depth: int, one: int, other: int) -> None:
    assert compose(found, depth, one).gaps == compose(found, depth, other).gaps


@given(founds(), st.integers(1, 8), st.integers(1, 600), st.data())
def test_whatever_a_model_writes_only_what_was_offered_is_cited(
    found: Found, depth: int, chars: int, data: st.DataObject
) -> None:
    known = [*(o.claim_id for o in found.offers), *(o.claim_id for o in found.others), "0" * 32, "c1"]
    sentences = data.draw(st.lists(st.builds(Written, TEXTS, st.lists(st.sampled_from(known), max_size=3)), max_size=6))
    offers = {o.claim_id: o for o in found.relevant[:depth]}

    answer = checked(found, offers, sentences, chars, "model")

    assert_holds(answer, found, chars)
    assert set(answer.invented).isdisjoint(offers)


# -- what a model writes -------------------------------------------------------------------------------


def judged(found: Found, *sentences: tuple[str, Sequence[str]], max_chars: int = 4000) -> Answer:
    offers = {o.claim_id: o for o in found.offers}
    return checked(found, offers, [Written(text, claims) for text, claims in sentences], max_chars, "model")


def test_a_sentence_whose_only_citation_is_invented_goes_and_its_id_is_told() -> None:
    found = Found("auth", [offer(text) for text in AUTH])
    good = found.offers[0].claim_id

    answer = judged(found, ("Auth uses JWT tokens.", [good, "0" * 32]), ("Auth uses magic.", ["1" * 32]))

    assert answer.answer == f"Auth uses JWT tokens [{good}]."
    assert answer.invented == ("0" * 32, "1" * 32)
    assert [(r.text, r.invented) for r in answer.refused] == [("Auth uses magic.", ("1" * 32,))]


def test_sentences_are_checked_one_by_one_also_where_the_model_runs_them_together() -> None:
    found = Found("auth", [offer(text) for text in AUTH])
    good = found.offers[0].claim_id

    answer = judged(found, ("Auth uses JWT tokens. Bananas ripen in autumn sunlight.", [good]))

    assert answer.answer == f"Auth uses JWT tokens [{good}]."
    assert [refused.text for refused in answer.refused] == ["Bananas ripen in autumn sunlight."]


@pytest.mark.parametrize(
    ("sentence", "claim", "reason"),
    [
        ("Tokens expire after an hour", "Tokens expire after one hour", ""),
        ("Tokens expire after 2 hours", "Tokens expire after 1 hours", "its claims do not say 2"),
        ("Tokens never expire", "Tokens expire after an hour", "negates what its claims say"),
        ("Tokens expire", "Tokens don't expire", "leaves out a negation of its claims"),
        ("Cookies hold sessions of admins", "Tokens expire after an hour", "its claims do not say this"),
    ],
)
def test_a_sentence_must_say_what_its_claims_say(sentence: str, claim: str, reason: str) -> None:
    assert unsupported(sentence, [claim]) == reason


def test_the_budget_holds_for_a_model_and_what_contests_a_claim_is_added() -> None:
    one, other = contested("Auth uses JWT", "Auth uses cookies"), contested("Auth uses cookies", "Auth uses JWT")
    found = Found("auth", [one, other])

    whole = judged(found, ("Auth uses JWT.", [one.claim_id]))
    short = judged(found, ("Auth uses JWT.", [one.claim_id]), max_chars=60)

    assert ids(whole) == [one.claim_id, other.claim_id]
    assert (whole.confidence, short.answer, short.cut) == ("low", "", [one.claim_id])


def test_a_model_is_shown_the_claims_as_data_and_its_failure_is_no_answer(server: OpenAIServer) -> None:
    found = Found("auth", [offer(text) for text in AUTH])
    good = found.offers[0].claim_id
    answerer = OpenAIAnswerer(model="small", base_url=server.base_url, api_key="k", retries=0)
    server.answer = lambda _: {"sentences": [{"text": "Auth uses JWT tokens.", "claims": [good]}]}

    answer = written(found, answerer, 3, 4000)

    assert answer.answer == f"Auth uses JWT tokens [{good}]."
    assert answer.producer == "small"
    assert f"Claim {good}:" in server.completions[0].content
    server.answer = lambda _: "no JSON of this kind"
    server.schemas = False
    with pytest.raises(ModelError):
        written(found, answerer, 3, 4000)


def test_a_model_is_not_asked_where_there_is_nothing_to_say(server: OpenAIServer) -> None:
    answerer = OpenAIAnswerer(model="small", base_url=server.base_url, api_key="k")

    answer = written(Found("kubernetes", [offer(text) for text in AUTH]), answerer, 3, 4000)

    assert (answer.answer, answer.gaps, server.requests) == ("", ["kubernetes"], [])
