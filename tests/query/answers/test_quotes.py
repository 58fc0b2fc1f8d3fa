"""Answers from passages: an index without claims answers with quotes that open at their span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from findingaid import Corpus, FindingAid
from findingaid.claims.decisions import DecisionLog, Verdict
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.model import Action, claim_id
from findingaid.corpus import Claiming
from findingaid.embedding.minilm import MiniLM
from findingaid.query.answers.other_names import named_day
from findingaid.query.answers.relevance import REFUSED
from findingaid.sources.media_types import media_type_of
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import MemorySource
from tests.conftest import Cli

LEASES = "A lease keeps two runs from writing the same artifact. It ends by itself after ten minutes."
TEXTS = {
    "leases.md": f"# Leases\n\n{LEASES} Is that long enough?\n",
    "readers.md": "# Readers\n\nReaders follow a tag. The tag moves **only** after all checks have passed.\n",
    "birds.md": "# Birds\n\nThe robin sings at dawn. Its nest is a cup of moss and leaves.\n",
}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., FindingAid]:
    embedder = MiniLM()

    def build(texts: dict[str, str], **changed: Any) -> FindingAid:
        strategy = changed.pop("strategy", Chunked(chunk_size=400, overlap=0))
        corpus = Corpus("docs", changed.pop("source", None) or MemorySource(texts), strategy, **changed)
        aid = FindingAid(Store(str(tmp_path_factory.mktemp("index"))), embedder, {"docs": corpus})
        aid.index()
        return aid

    return build


@pytest.fixture(scope="module")
def aid(make: Callable[..., FindingAid]) -> FindingAid:
    return make(dict(TEXTS))


def test_an_index_without_claims_answers_with_sentences_that_their_span_opens(aid: FindingAid) -> None:
    answer = aid.answer("does the tag move after all checks have passed", depth=1)

    quote = answer.quotes[0]
    assert answer.answer == f"The tag moves only after all checks have passed [{quote.quote_id}]."
    assert quote.quote == "The tag moves **only** after all checks have passed."
    assert TEXTS["readers.md"][slice(*quote.span)] == quote.quote
    assert aid.read("readers.md", span=quote.span).text == quote.quote
    assert quote.artifact_version == aid.show("readers.md").artifact_version
    assert answer.to_dict()["meta"]["sentences"][0]["kind"] == "passage"


def test_the_best_sentences_come_first_and_questions_and_other_subjects_do_not_come(aid: FindingAid) -> None:
    answer = aid.answer("does a lease end by itself after ten minutes", depth=5)

    assert {quote.artifact_id for quote in answer.quotes} == {"leases.md"}
    assert answer.quotes[0].text == "It ends by itself after ten minutes."
    assert not any("?" in sentence.text for sentence in answer.sentences)
    assert [quote.relevance for quote in answer.quotes] == sorted((q.relevance for q in answer.quotes), reverse=True)


def test_what_no_passage_answers_is_refused_with_the_words_that_were_looked_for(aid: FindingAid) -> None:
    answer = aid.answer("which team took the 1998 world cup")

    assert (answer.answer, answer.quotes) == ("", [])
    assert answer.relevance < REFUSED
    assert "looked for: team, took, 1998, world, cup)" in answer.note
    assert "1998" in answer.gaps


def test_the_budget_holds_for_quotes_and_what_does_not_fit_is_told(aid: FindingAid) -> None:
    whole = aid.answer("does a lease end by itself after ten minutes", numbered=True)
    short = aid.answer("does a lease end by itself after ten minutes", max_chars=45, numbered=True)

    assert len(whole.sentences) == 2
    assert short.answer == "It ends by itself after ten minutes [1]."
    assert short.cut == [whole.quotes[1].quote_id]


def test_a_filter_and_freshness_hold_for_quotes(make: Callable[..., FindingAid]) -> None:
    texts = dict(TEXTS)
    aid = make(texts)
    question = "when does the tag of readers move"

    assert aid.answer(question, where="artifact_id = 'birds.md'").quotes == []
    assert aid.answer(question, fresh="verify").quotes[0].fresh == "current"
    texts["readers.md"] += "More."
    aid.corpora["docs"].source.payloads["readers.md"] = texts["readers.md"]  # type: ignore[attr-defined]
    changed = aid.answer(question, fresh="verify")
    assert changed.quotes[0].fresh == "changed"
    assert "(source changed" in changed.answer


def test_a_generated_synopsis_is_no_evidence(make: Callable[..., FindingAid]) -> None:
    strategy = with_synopsis(Chunked(chunk_size=400, overlap=0), lambda text, _: "Walruses guard the leases.", "walrus")
    aid = make(dict(TEXTS), strategy=strategy)

    answer = aid.answer("who guards the leases, are it walruses", depth=9)

    assert aid.search("walruses guard the leases", 1)[0].surface_kind == "synopsis"
    assert not any("Walrus" in sentence.text for sentence in answer.sentences)
    assert "walruses" in answer.gaps
    assert [passage.surface_kind for passage in aid.answer("do walruses guard").passages if not passage.span] == [
        "synopsis"
    ] * 3


def test_a_retracted_claim_does_not_come_back_as_a_quote(make: Callable[..., FindingAid]) -> None:
    aid = make(dict(TEXTS), claims=Claiming(ExtractiveClaims()))
    said = "The tag moves only after all checks have passed."
    before = aid.answer("when does the tag of readers move")

    rejected = Verdict(Action.REJECT, "docs", claim_id("docs", said), "readers.md", "", None)
    DecisionLog(aid.store).decide(lambda _: [rejected], "ann", "wrong")
    after = aid.answer("when does the tag of readers move", depth=9)

    assert said.removesuffix(".") in before.answer
    assert "after all checks" not in after.answer
    assert not any("after all checks" in quote.text for quote in after.quotes)


def test_the_command_answers_with_the_default_corpus_settings(cli: Cli) -> None:
    cli.write("ledger.md", "# Ledger\n\nThe ledger keeps one row an artifact. Rows are never edited by hand.\n")
    cli.run("index")

    shown = cli.run("answer", "what does the ledger keep").stdout
    quote = cli.json("answer", "what does the ledger keep")["quotes"][0]
    place = f"docs/ledger.md [{quote['span'][0]}:{quote['span'][1]}]"

    assert shown.startswith("The ledger keeps one row an artifact [1].")
    assert f"[1] passage  {place}" in shown
    assert ">>The ledger keeps one row an artifact.<<" in cli.run("show", place).stdout


def test_a_text_without_sentences_and_entries_has_no_answer(make: Callable[..., FindingAid]) -> None:
    aid = make({"list.md": "# Tag of readers\n\n- moves\n- never moves\n"})

    answer = aid.answer("when does the tag of readers move")

    assert answer.answer == ""
    assert answer.passages[0].artifact_id == "list.md"


def test_a_row_of_a_table_and_an_item_with_a_label_are_quoted(make: Callable[..., FindingAid]) -> None:
    text = "# Readers\n\n| tag | moves |\n| --- | --- |\n| readers | after checks |\n\n"
    aid = make({"table.md": text + "- Password of the router: in the safe\n"})

    row = aid.answer("when does the tag of readers move").quotes[0]
    item = aid.answer("what is the password of the router").quotes[0]

    assert (row.text, text[slice(*row.span)]) == ("tag: readers; moves: after checks", "| readers | after checks |")
    assert item.text == "Password of the router: in the safe"


def test_rows_about_other_things_are_not_quoted_beside_the_row_that_was_asked_for(
    make: Callable[..., FindingAid],
) -> None:
    rows = "| Aro 12 | 1240 |\n| Holm 9 | 980 |\n| Berg 4 | 2210 |\n"
    form = "|  |  |\n| --- | --- |\n| Tenant | Ann Berg |\n| Deposit | 19,000 SEK |\n"
    text = f"# Pumps\n\n| Pump model | Price in euro |\n| --- | --- |\n{rows}\n# Tenancy\n\n{form}"
    aid = make({"a.md": text})

    def quoted(question: str) -> list[str]:
        return [quote.text for quote in aid.answer(question).quotes]

    assert quoted("What is the price of the Holm 9 pump?") == ["Pump model: Holm 9; Price in euro: 980"]
    assert quoted("How much is the deposit?") == ["Deposit; 19,000 SEK"]
    assert len(quoted("What is the price of the pumps in euro?")) == rows.count("\n")
    assert len(quoted("What is the price of Holm 9 and of Berg 4?")) > 1


CUT = {
    "text/csv": (
        "thing,price\nThe large copper pump for the old deep well,it costs 1 200 SEK with taxes\n",
        "it costs 1",
    ),
    "application/yaml": ("backups: kept for 30 days unless the owner asks for 10 years in all\n", "for 30 days unless"),
    "application/toml": ("backups = kept as long as the owner of the files says {n} days\n", "of the files says {n}"),
    "text/markdown": ("Backups: kept for 30 days unless the owner asks for 10 years in all\n", "for 30 days unless"),
}


@pytest.mark.parametrize("media_type", CUT)
def test_a_row_or_value_that_its_chunk_cuts_off_is_not_quoted_as_if_it_were_whole(
    media_type: str, make: Callable[..., FindingAid]
) -> None:
    text, cut = CUT[media_type]
    source = MemorySource({"a": text}, metadata={"a": {"media_type": media_type}})
    aid = make({}, source=source, strategy=Chunked(chunk_size=57, overlap=0))
    question = "what does the copper pump cost" if "pump" in text else "how long are backups kept"

    answer = aid.answer(question)

    assert any(cut in hit.text for hit in aid.search(question))
    assert cut not in answer.answer


def test_a_sentence_of_another_section_does_not_answer(make: Callable[..., FindingAid]) -> None:
    sections = {"Alpha": "16 GB", "Beta": "64 GB", "Gamma": "32 GB"}
    text = "".join(f"## {name} server\n\nThe memory is {size}.\n\n" for name, size in sections.items())
    aid = make({"servers.md": f"# Servers\n\n{text}"})

    for name, size in sections.items():
        assert [quote.text for quote in aid.answer(f"how much memory has the {name} server").quotes] == [
            f"The memory is {size}."
        ]
    assert len(aid.answer("how much memory have the servers").quotes) == len(sections)


def test_a_claim_of_another_section_does_not_answer(make: Callable[..., FindingAid]) -> None:
    sections = {"Alpha": "16 GB", "Beta": "64 GB", "Gamma": "32 GB"}
    text = "".join(f"## {name}\n\nThe server has {size} of memory.\n\n" for name, size in sections.items())
    listed = "## Delta\n\n- Memory of the server: 8 GB\n"
    aid = make({"servers.md": f"# Servers\n\n{text}{listed}"}, claims=Claiming(ExtractiveClaims()))

    for name, size in sections.items():
        answer = aid.answer(f"how much memory has the {name} server")
        assert [claim.text for claim in answer.claims] == [f"The server has {size} of memory."]
        assert not answer.quotes
    assert len(aid.answer("how much memory have the servers").claims) == len(sections)
    of_a_list = aid.answer("how much memory has the Delta server")
    assert not of_a_list.claims
    assert [quote.text for quote in of_a_list.quotes] == ["Memory of the server: 8 GB"]


def test_what_two_sections_say_is_cited_from_the_one_that_is_asked_about(make: Callable[..., FindingAid]) -> None:
    text = "# Servers\n\n## Alpha\n\nThe server has 16 GB of memory.\n\n## Beta\n\nThe server has 16 GB of memory.\n"
    aid = make({"servers.md": text}, claims=Claiming(ExtractiveClaims()))

    answer = aid.answer("how much memory has the beta server")

    assert not answer.claims
    assert [quote.span[0] for quote in answer.quotes] == [text.rindex("The server")]


def test_a_sentence_above_all_sections_and_one_that_names_its_subject_answer(make: Callable[..., FindingAid]) -> None:
    text = "# Servers\n\nThe memory is 16 GB.\n\n## Alpha\n\nBeta has a memory of 8 GB.\n\n"
    text += "## Beta\n\nThe memory is 4 GB.\n"

    quotes = make({"servers.md": text}).answer("how much memory has beta").quotes

    assert {quote.text for quote in quotes} == {
        "The memory is 16 GB.",
        "Beta has a memory of 8 GB.",
        "The memory is 4 GB.",
    }


def test_a_sentence_within_a_paragraph_is_about_the_thing_that_begins_it(make: Callable[..., FindingAid]) -> None:
    rooms = {12: "Irene", 112: "Tomek", 21: "Sabine"}
    text = "".join(f"- Room {room}: store. No open fire. The key is with {name}.\n" for room, name in rooms.items())
    plain, claiming = make({"rooms.md": f"# Rooms\n\n{text}"}), Claiming(ExtractiveClaims())

    for room, name in rooms.items():
        assert plain.answer(f"who has the key of room {room}").quotes[0].text == f"The key is with {name}."
    assert "key" not in plain.answer("who has the key of room 13").answer
    claimed = make({"rooms.md": f"# Rooms\n\n{text}"}, claims=claiming)
    assert "key" not in claimed.answer("who has the key of room 13").answer


def test_a_number_that_no_text_names_is_a_gap_also_beside_dates(make: Callable[..., FindingAid]) -> None:
    aid = make({"crane.md": "# Crane\n\nThe crane was inspected on 3 September 2025 by Rolf Amsel.\n"})

    answer = aid.answer("when was crane 3 inspected")

    assert list(answer.gaps) == ["3"]
    assert answer.confidence != "high"


def test_a_value_is_that_of_the_section_whose_other_values_the_question_names(make: Callable[..., FindingAid]) -> None:
    text = "power:\n  provider: Naturstrom\n  customer_number: 558213\n"
    text += "internet:\n  provider: M-net\n  customer_number: 90417\n"
    aid = make({}, source=MemorySource({"a.yaml": text}, metadata={"a.yaml": {"media_type": "application/yaml"}}))

    for provider, number in (("Naturstrom", "558213"), ("M-net", "90417")):
        quotes = aid.answer(f"what is the customer number at {provider}").quotes
        assert [quote.text.rpartition(" ")[2] for quote in quotes if "number" in quote.text] == [number]


def test_an_object_of_json_lines_is_quoted(make: Callable[..., FindingAid]) -> None:
    text = (
        '{"machine": "saw 1", "event": "blade replaced by Bo"}\n{"machine": "saw 2", "event": "blade replaced by Al"}\n'
    )
    aid = make(
        {}, source=MemorySource({"log.jsonl": text}, metadata={"log.jsonl": {"media_type": "application/jsonl"}})
    )

    assert [quote.text for quote in aid.answer("who replaced the blade of saw 2").quotes] == [
        "machine: saw 2; event: blade replaced by Al"
    ]


def test_of_claims_that_answer_equally_well_the_newest_comes_first(make: Callable[..., FindingAid]) -> None:
    texts = {f"{year}.md": f"# Fees\n\nThe yearly fee is {fee} euros.\n" for year, fee in ((2019, 90), (2025, 120))}
    dates = {name: {"date": f"{name[:4]}-04-02"} for name in texts}
    aid = make({}, source=MemorySource(texts, metadata=dates), claims=Claiming(ExtractiveClaims()))

    answer = aid.answer("how high is the yearly fee")

    assert [claim.text for claim in answer.claims] == [
        "The yearly fee is 120 euros.",
        "The yearly fee is 90 euros.",
    ]
    assert [place.date for claim in answer.claims for place in claim.places] == ["2025-04-02", "2019-04-02"]
    assert answer.note == "the newest source, of 2025-04-02, comes first; an older one is of 2019-04-02"


def test_a_value_is_quoted_with_its_section(make: Callable[..., FindingAid]) -> None:
    text = '[server.alpha]\nmemory = "16 GB"\n[server.beta]\nmemory = "64 GB"\n'
    source = MemorySource({"a.toml": text}, metadata={"a.toml": {"media_type": "application/toml"}})

    quotes = make({}, source=source).answer("how much memory has server beta").quotes

    assert quotes[0].text == "server.beta: memory: 64 GB"
    assert quotes[0].quote == 'memory = "64 GB"'


@pytest.fixture
def dated(make: Callable[..., FindingAid]) -> Callable[..., FindingAid]:
    """Index texts, each given with the date of its artifact."""

    def build(texts: dict[str, tuple[str, str]]) -> FindingAid:
        days = {i: {"date": day} for i, (day, _) in texts.items() if day}
        return make({}, source=MemorySource({i: f"# Notes\n\n{text}\n" for i, (_, text) in texts.items()}, days))

    return build


READINGS = {1: 18234, 4: 19980, 7: 20711, 10: 21405}


@pytest.mark.parametrize("day", ["2026-{:02d}-01", "2026-{:02d}", "01.{:02d}.2026", "1.{}.2026"])
def test_a_month_is_found_in_dates_in_digits(make: Callable[..., FindingAid], day: str) -> None:
    rows = "".join(f"{day.format(month)},{power}\n" for month, power in READINGS.items())
    source = MemorySource({"meters.csv": f"date,power\n{rows}"}, {"meters.csv": {"media_type": "text/csv"}})

    answer = make({}, source=source).answer("What was the power meter reading in July 2026?")

    assert answer.sentences[0].text == f"date: {day.format(7)}; power: 20711"
    assert "July" not in answer.gaps


def test_the_folder_of_a_file_says_what_it_is_about(make: Callable[..., FindingAid]) -> None:
    elected = "# Meeting\n\nHanna Lund is the new librarian from this week on.\n"
    question = "Who is the librarian of the choir?"

    named, unnamed = make({"choir/m1.md": elected}).answer(question), make({"a/m1.md": elected}).answer(question)

    assert named.sentences[0].text.startswith("Hanna Lund")
    assert named.relevance > unnamed.relevance


def test_the_settings_of_a_file_are_no_sentence_together(make: Callable[..., FindingAid]) -> None:
    settings = (
        "server:\n  port: 8085\n  workers: 3\n  request_timeout_seconds: 20\ndatabase:\n  url: postgresql://otter/tides\n"
        "  pool_size: 12\nretention:\n  raw_days: 30\nalerts:\n  quiet_hours: 22-07\n"
    )
    aid = make({}, source=MemorySource({"config.yaml": settings}, {"config.yaml": {"media_type": "application/yaml"}}))

    assert not any("workers" in quote.text for quote in aid.answer("What is the port of the database?").quotes)
    assert aid.answer("What is the pool size of the database?").sentences[0].text == "database: pool_size: 12"


@pytest.mark.parametrize(("older", "newest"), [("a.md", "b.md"), ("b.md", "a.md")])
def test_of_two_dated_sources_the_newest_comes_first_and_the_dates_are_told(
    dated: Callable[..., FindingAid], older: str, newest: str
) -> None:
    aid = dated(
        {
            older: ("2024-05-13", "The boiler was serviced on 12 May by Holm."),
            newest: ("2025-05-20T10:00:00+02:00", "On 19 May the boiler was serviced again, by Aro."),
        }
    )
    answer = aid.answer("When was the boiler serviced?")

    assert [(each.artifact_id, each.date) for each in answer.quotes] == [(newest, "2025-05-20"), (older, "2024-05-13")]
    assert answer.note == "the newest source, of 2025-05-20, comes first; an older one is of 2024-05-13"
    assert aid.answer("When was the boiler serviced?", depth=1).note == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2024-09-06 minutes.md", "2025-03-01 minutes.md"),
        ("2024/minutes_2024-09-06.md", "2024/minutes_2025-03-01.md"),
        ("Protokoll vom 6. September 2024.md", "Protokoll vom 1. März 2025.md"),
        ("a/06.09.2024.md", "a/01.03.2025.md"),
        ("Minutes of September 6, 2024.md", "Minutes, 1 March 2025.md"),
    ],
)
def test_a_day_in_the_name_of_a_text_without_another_date_is_its_date(
    dated: Callable[..., FindingAid], first: str, second: str
) -> None:
    aid = dated({first: ("", "The fee is 40 euros a year."), second: ("", "The fee is 48 euros a year from now on.")})

    quotes = aid.answer("How much is the fee?").quotes
    assert [(each.artifact_id, each.date) for each in quotes] == [(second, "2025-03-01"), (first, "2024-09-06")]


@pytest.mark.parametrize(("time", "fee"), [("in 2024", 40), ("in September 2024", 40), ("in 2025", 48), ("now", 48)])
def test_a_question_that_names_a_time_is_not_answered_from_the_newest_first(
    dated: Callable[..., FindingAid], time: str, fee: int
) -> None:
    aid = dated(
        {
            "minutes-2024-09-06.md": ("", "The fee is 40 euros a year."),
            "minutes-2025-03-01.md": ("", "The fee is 48 euros a year from now on."),
        }
    )

    answer = aid.answer(f"How much is the fee {time}?")

    assert f"{fee} euros" in answer.sentences[0].text
    assert bool(answer.note) == (time == "now")


@pytest.mark.parametrize("name", ["2024-09-06 to 2025-03-01", "fee 2025", "room 12 of 2025", "6 September", ""])
def test_a_name_that_does_not_tell_one_day_has_none(name: str) -> None:
    assert named_day(name) == ""


PLAN = "The basic plan costs 5 euros a month."


@pytest.mark.parametrize(
    "newer",
    [
        "The pro plan costs 9 euros a month.",
        "The basic plan is described on the page of all our plans.",
        "The newest phones cost 700 euros.",
    ],
)
def test_a_newer_source_that_answers_less_well_does_not_come_first(
    dated: Callable[..., FindingAid], newer: str
) -> None:
    answer = dated({"a.md": ("2023-01-10", PLAN), "b.md": ("2025-02-10", newer)}).answer(
        "What does the basic plan cost?"
    )

    assert (answer.quotes[0].text, answer.note) == (PLAN, "")


@pytest.mark.parametrize("day", ["", "last week", "13 May 2024"])
def test_a_source_without_a_date_is_not_older_than_others(dated: Callable[..., FindingAid], day: str) -> None:
    best = "The chair of the club is Ann Holm."
    aid = dated({"a.md": (day, best), "b.md": ("2025-02-10", "The new chair of our old club is Bo Lind.")})
    answer = aid.answer("Who is the chair of the club?")

    assert (answer.quotes[0].text, answer.note) == (best, "")


def test_a_sentence_or_claim_about_another_version_or_month_does_not_answer(make: Callable[..., FindingAid]) -> None:
    texts = {
        "api.md": "# API\n\nVersion 1 of the API was switched off on 30 June 2025.\n",
        "bills.md": "# Bills\n\nThe hosting cost 210 euros in June 2025.\n",
    }
    asked = {
        "When was version {} of the API switched off?": ("1", "2", "api.md"),
        "What did the hosting cost in {}?": ("June", "May", "bills.md"),
    }
    for aid in (make(texts), make(texts, claims=Claiming(ExtractiveClaims()))):
        for question, (same, other, file) in asked.items():
            assert aid.answer(question.format(same)).sentences
            refused = aid.answer(question.format(other))
            assert not refused.sentences
            assert refused.passages[0].artifact_id == file  # named beside it, so that people can look


def test_a_row_with_a_rare_name_and_all_words_of_the_question_answers(make: Callable[..., FindingAid]) -> None:
    boats = (
        '[\n {"id": "B-305", "name": "Zilvermeeuw", "class": "sloop", "harbour": "Hoorn", "built": 2012},\n'
        ' {"id": "B-101", "name": "Seeadler", "class": "dinghy", "harbour": "Kiel", "built": 2016}\n]\n'
    )
    aid = make({}, source=MemorySource({"boats.json": boats}, {"boats.json": {"media_type": "application/json"}}))

    answer = aid.answer("When was the Zilvermeeuw built?")

    assert [quote.text for quote in answer.quotes] == [
        "id: B-305; name: Zilvermeeuw; class: sloop; harbour: Hoorn; built: 2012"
    ]
    assert answer.confidence == "medium"
    assert not aid.answer("When was the Albatros built?").sentences


FAQ = {
    "one paragraph": "**Can I bring my dog?** {}\n\n**How long does it take until I can row alone?** {}\n",
    "lines": "**Can I bring my dog?**\n{}\n\n**How long does it take until I can row alone?**\n{}\n",
    "paragraphs": "Can I bring my dog?\n\n{}\n\nHow long does it take until I can row alone?\n\n{}\n",
    "headings": "## Can I bring my dog?\n{}\n\n## How long does it take until I can row alone?\n{}\n",
}


@pytest.mark.parametrize("form", FAQ)
def test_the_answer_to_the_same_question_in_a_text_answers_it(make: Callable[..., FindingAid], form: str) -> None:
    """It has no word of the question itself, and may say how long in other units than those of time."""
    pairs = FAQ[form].format("Yes, on a lead.", "About twelve outings.")
    aid = make({"faq.md": f"# Questions\n\n{pairs}", "birds.md": TEXTS["birds.md"]})

    assert [quote.text for quote in aid.answer("May I bring my dog?").quotes] == ["Yes, on a lead."]
    assert [quote.text for quote in aid.answer("How long does it take until I can row alone?").quotes] == [
        "About twelve outings."
    ]
    assert not aid.answer("When may I bring my dog?").quotes, "another question about the same"


def test_the_answer_to_a_question_of_a_text_may_name_another_day(make: Callable[..., FindingAid]) -> None:
    aid = make({"faq.md": "# Questions\n\nIs the office open on Sunday? It opens on Monday at nine.\n"})

    assert [quote.text for quote in aid.answer("Is the office open on Sunday?").quotes] == [
        "It opens on Monday at nine."
    ]


OPEN = {
    "a.json": '[\n  {\n    "question": "{}",\n    "answer": ""\n  },\n  {}\n]\n',
    "b.json": '{"id": 1, "question": "{}", "answer": null}\n',
    "a.yaml": "- answer: ''\n  question: {}\n- answer:\n  question: {}\n",
    "a.csv": "id,question,answer\n1,{},\n2,Who rows?,Ole rows.\n",
    "a.md": "# Open\n\n- [ ] {}\n\nQuestion: {}\n\n| question | answer |\n| --- | --- |\n| {} | |\n",
}


@pytest.mark.parametrize("name", OPEN)
def test_a_question_without_an_answer_does_not_answer_itself(make: Callable[..., FindingAid], name: str) -> None:
    question = "Which colour has the emergency exit sign in Basel?"
    texts = {name: OPEN[name].replace("{}", question)}
    aid = make({}, source=MemorySource(texts, {name: {"media_type": media_type_of(name)}}))

    answer = aid.answer(question)

    assert answer.weak
    assert not any(question in quote.text for quote in answer.quotes)
    assert question in aid.search(question)[0].text


def test_a_task_of_a_chunk_and_a_name_in_a_row_are_quoted(make: Callable[..., FindingAid]) -> None:
    tasks = "# Tasks\n\n- [ ] English version of the page on membership (Silke)\n- [x] Photos of the regatta (Ole)\n"
    boats = "name,built,maker\nNordwind,2018,Empacher\nMoewe,2012,WinTech\n"
    source = MemorySource({"tasks.md": tasks, "boats.csv": boats}, {"boats.csv": {"media_type": "text/csv"}})
    aid = make({}, source=source)

    assert aid.answer("Who makes the English version of the page on membership?").quotes[0].text.endswith("(Silke)")
    assert aid.answer("Who built the Nordwind?").quotes[0].text == "name: Nordwind; built: 2018; maker: Empacher"
