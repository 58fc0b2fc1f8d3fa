"""Quotes: sentences of found passages that may answer a question, each with the place at which it can be opened."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from findingaid.claims.extraction import BEGINS, ENDS, media_type, sentences_of
from findingaid.claims.model import Evidence, claim_id
from findingaid.embedding.validation import require_shape
from findingaid.identity.hashes import content_hash
from findingaid.model import CLAIM, Artifact, Fresh, Hit
from findingaid.query.answers.answer_types import asked_type, stated
from findingaid.query.answers.other_names import named_day, names_another, unnamed_numbers
from findingaid.query.answers.relevance import OF_SENTENCE, Measured, estimate_relevance
from findingaid.query.answers.sections import Statement, about_other_sections, headings_of
from findingaid.query.search.probes import NO_SCORES, probe_scores
from findingaid.store.sql import both, equals, one_of
from findingaid.store.vectors import unit
from findingaid.text.analyzer import Lexical
from findingaid.text.entries import LABELLED, OBJECT, entries, only_asks
from findingaid.text.markdown import Span
from findingaid.text.prose import ProseSentence
from findingaid.text.structure import Headings, page_at, page_in_words
from findingaid.text.words import LETTERS, found_stems, in_language_of, salient, stems

if TYPE_CHECKING:
    from findingaid.claims.eligible import Eligible
    from findingaid.query.search.reader import Key, Reader
    from findingaid.query.search.searcher import Searcher

EMBEDDED = 64
"""Maximum number of sentences that are embedded for a question: those with most of its words."""

LABEL_END = re.compile(r"[:;] ")
"""Sign after the label or the value of an entry. A capital after it is one of a name, not that of a sentence."""

DAY = re.compile(r"\d{4}-\d\d-\d\d")
"""Date in ISO 8601 format, as that of a mail and of front matter begins."""

MAIL = "message/rfc822"
"""Media type of mails. Their first lines have labels too, but name only sender, recipients and date."""

LEAST_WORDS, LONGEST = 3, 600
"""Minimum words and maximum characters of a sentence. A shorter one says nothing, a longer one is a passage."""


BLANKS = 100
"""Maximum number of blanks that the chunk of a hit may lack at the begin or end of a line."""


@dataclass(frozen=True)
class Quote:
    """Sentence of an indexed text that may answer a question.

    `artifact_version` is the version of the artifact of which text[span] is `quote`; `text` is the same sentence
    without markup. `place` is that in a document, such as a page. `relevance` is the estimated probability that it
    answers the question. `date` is the day that the text or its name gives as its own, in ISO 8601 format; "" if none.
    `headings` are those above it. `is_entry`: it is a row of a table or a named value, not a sentence.
    """

    quote_id: str
    corpus: str
    artifact_id: str
    record_id: str
    artifact_version: str
    span: Span
    text: str
    quote: str
    relevance: float
    place: str = ""
    date: str = ""
    fresh: Fresh | None = None
    fresh_note: str = ""
    lexical: Lexical = field(default_factory=Lexical, repr=False)
    headings: Sequence[str] = field(default=(), repr=False)
    is_entry: bool = False

    @cached_property
    def words(self) -> frozenset[str]:
        """Stems of its words."""
        return stems([self.text], self.lexical)

    def to_dict(self) -> dict[str, Any]:
        return {
            "quote_id": self.quote_id,
            "corpus": self.corpus,
            "artifact_id": self.artifact_id,
            "place": self.place,
            "date": self.date,
            "record_id": self.record_id,
            "artifact_version": self.artifact_version,
            "span": self.span,
            "text": self.text,
            "quote": self.quote,
            "relevance": round(self.relevance, 3),
            "fresh": self.fresh,
            "fresh_note": self.fresh_note,
        }


class _Sentence(NamedTuple):
    """Sentence or entry of a hit, its span in the artifact, the headings above, and the sentence that it continues.

    The headings of a named value are followed by all values of its section, as by what that is about. `lead` is the
    paragraph before a sentence, or the end of it. `asked` is the question of the text that it answers, as in a list of
    frequent questions; "" if it answers none.
    """

    hit: Hit
    text: str
    span: Span
    headings: Sequence[str]
    before: str = ""
    asked: str = ""
    lead: str = ""
    is_entry: bool = False

    @property
    def statement(self) -> str:
        """The sentence with the question that it answers."""
        return f"{self.asked} {self.text}" if self.asked else self.text


def find_quotes(
    searcher: Searcher,
    reader: Reader,
    query: str,
    corpora: Sequence[str],
    hits: Sequence[Hit],
    eligible: Eligible,
    tiers: Collection[str],
) -> list[Quote]:
    """Return the sentences of these passages, found in these corpora, that may be cited; best first.

    A sentence has the tier of a claim that is its own quote, so that decisions on such a claim hold for it. A sentence
    from which a retracted or contested claim was taken is left out, and one about another number or time than asked.
    """
    lexical = in_language_of(query, searcher.store.lexical)
    hidden = _hidden_spans(reader, hits, eligible)
    found = [
        sentence
        for sentence in _read_sentences(reader, hits)
        if eligible.allows(claim_id(sentence.hit.corpus, sentence.text), Evidence.VERIFIED, True, tiers)
        and not any(
            _overlap(sentence.span, other) for other in hidden.get((sentence.hit.corpus, sentence.hit.artifact_id), ())
        )
    ]
    found = [one for one in found if not names_another(query, one.text, f"{_around(one)}\n{one.asked}", one.lead)]
    placed = [Statement((one.hit.corpus, one.hit.artifact_id), one.text, one.headings) for one in found]
    elsewhere = about_other_sections(salient(query, lexical), placed, (), lexical)
    found = [sentence for sentence, other in zip(found, elsewhere, strict=True) if not other]
    measured = sorted(
        zip(found, _measure_words(query, found, lexical), strict=True),
        key=lambda each: (-each[1].in_context, -each[1].covered),
    )[:EMBEDDED]
    versions, above = _measure_meaning(searcher, reader, query, corpora, [sentence for sentence, _ in measured])
    quotes = [
        _quote(
            sentence,
            versions[sentence.hit.record_id],
            estimate_relevance(replace(words, above=score), OF_SENTENCE),
            lexical,
        )
        for (sentence, words), score in zip(measured, above, strict=True)
        if sentence.hit.record_id in versions
    ]
    return sorted(quotes, key=lambda quote: -quote.relevance)


def _measure_words(query: str, sentences: Sequence[_Sentence], lexical: Lexical) -> list[Measured]:
    """Return the measurements of sentences for which no embedding is needed."""
    terms = salient(query, lexical).keys()
    heads = {s.hit.record_id: _head(s.hit) for s in sentences}
    of_hits = {s.hit.record_id: f"{heads[s.hit.record_id]}\n{s.hit.text}" for s in sentences}
    of_passages = {
        i: found_stems(frozenset(terms), text, lexical) - unnamed_numbers(query, text) for i, text in of_hits.items()
    }
    measured = []
    for sentence in sentences:
        around = "\n".join([_around(sentence), sentence.lead])
        own, record_id = stems([sentence.statement], lexical) & terms, sentence.hit.record_id
        context = own | (stems([_around(sentence), sentence.before], lexical) & terms)
        unnamed = unnamed_numbers(query, f"{sentence.statement}\n{around}")
        own, context = own - unnamed, context - unnamed
        shares = (len(words) / len(terms) for words in (own, context, of_passages[record_id]))
        covered, in_context, in_passage = shares
        whole = sentence.is_entry and covered == 1 and len(terms) > 1
        measured.append(
            Measured(covered, None, _stated(query, sentence, terms, lexical), in_context, in_passage, whole)
        )
    return measured


def _stated(query: str, sentence: _Sentence, terms: Collection[str], lexical: Lexical) -> float:
    """Return how far a sentence states what the query asks for, or answers the same question in its text."""
    plain = [sentence.text, LABEL_END.sub(" ", sentence.text)] if sentence.is_entry else [sentence.text]
    share = max(stated(query, text) for text in plain)
    if sentence.asked and asked_type(query) in (None, asked_type(sentence.asked)):
        share = max(share, len(stems([sentence.asked], lexical).intersection(terms)) / len(terms))
    return share


def _around(sentence: _Sentence) -> str:
    """Return the names of the text of a sentence, and the headings above it, a line each."""
    return "\n".join([_names(sentence.hit), *sentence.headings])


def _head(hit: Hit) -> str:
    """Return the names and the headings of a hit."""
    return " ".join([_names(hit), *_headings(hit)])


def _names(hit: Hit) -> str:
    """Return the title of a hit and the path of its artifact: people name folders by what is in them."""
    return f"{hit.metadata.get('title', '')}\n{hit.artifact_id}"


def _headings(hit: Hit) -> Sequence[str]:
    return [*map(str, hit.metadata.get("headings") or ())]


def _quote(sentence: _Sentence, version: str, relevance: float, lexical: Lexical) -> Quote:
    hit, (start, end) = sentence.hit, sentence.span
    at = hit.span[0] if hit.span else 0
    return Quote(
        content_hash("quote", hit.corpus, hit.artifact_id, version, sentence.span),
        hit.corpus,
        hit.artifact_id,
        hit.record_id,
        version,
        sentence.span,
        sentence.text,
        hit.text[start - at : end - at],
        relevance,
        page_in_words(page) if (page := page_at(hit.metadata, hit.text, start - at)) else hit.place,
        day_of(hit.metadata, hit.artifact_id),
        lexical=lexical,
        headings=sentence.headings,
        is_entry=sentence.is_entry,
    )


def _read_sentences(reader: Reader, hits: Sequence[Hit]) -> Iterator[_Sentence]:
    """Yield each whole sentence and each entry of the hits once, without markup."""
    artifacts = reader.artifacts({hit.artifact_id for hit in hits})
    headings = headings_of(artifacts)
    seen = set()
    for hit in hits:
        artifact, _ = artifacts.get((hit.corpus, hit.artifact_id), (None, ""))
        for sentence in _sentences_of_hit(hit, artifact, headings.get((hit.corpus, hit.artifact_id))):
            key = (hit.corpus, hit.artifact_id, sentence.span)
            if key not in seen:
                seen.add(key)
                yield sentence


def _sentences_of_hit(hit: Hit, artifact: Artifact | None, headings: Headings | None) -> Iterator[_Sentence]:
    def above(span: Span) -> Sequence[str]:
        return headings.above(*span) if headings and hit.span else _headings(hit)

    metadata = artifact.metadata if artifact else {}
    raw = artifact.raw if artifact and isinstance(artifact.raw, str) else ""
    start = hit.span[0] if hit.span else 0
    named = [*entries(hit.text, media_type(metadata), raw[:start])]
    begins = [entry.span[0] for entry in named]
    records: dict[str, str] = defaultdict(str)
    for entry in named:
        if entry.within and len(records[entry.within]) <= LONGEST:
            records[entry.within] += f"{entry.words}\n"
    before = asked = lead = ""
    for sentence in sentences_of(hit.text, metadata):
        lead = "" if sentence.first else f"{lead} {before}"[-LONGEST:]
        span = (start + sentence.span[0], start + sentence.span[1])
        if sentence.first and not before.endswith("?"):
            asked = ""
        whole = ENDS.search(sentence.text) or not hit.span or _is_end_of_line(raw, span[1])
        first, last = (bisect_left(begins, at) for at in sentence.span)
        several = last - first > 1  # the settings of a file, as one paragraph
        if whole and not several and _says_something(sentence.text, metadata) and not _is_cut(sentence, hit):
            continued = "" if sentence.first else before
            question = asked or next((heading for heading in above(span)[-1:] if heading.endswith("?")), "")
            yield _Sentence(hit, sentence.text, span, above(span), continued, question, lead)
        before = sentence.text
        asked = before if before.endswith("?") and len(before) <= LONGEST else asked
    for text, (first, last), within in named:
        span = (start + first, start + last)
        closed = not hit.span or OBJECT.fullmatch(hit.text, first, last)  # else it may go on beyond its chunk
        whole = closed or (_is_begin_of_line(raw, span[0]) and _is_end_of_line(raw, span[1]))
        if whole and LETTERS.search(text) and len(text) <= LONGEST and not only_asks(text):
            record = [records[within]] if 0 < len(records[within]) <= LONGEST else []
            yield _Sentence(hit, text, span, [*above(span), *record], is_entry=True)


def _is_begin_of_line(raw: str, at: int) -> bool:
    """Return whether a line of a text begins at a place, but for blanks. The chunk of a hit may begin within one."""
    return raw[max(0, at - BLANKS) : at].rstrip(" \t-*+")[-1:] in "\r\n"


def _is_end_of_line(raw: str, at: int) -> bool:
    return raw[at : at + BLANKS].lstrip(" \t")[:1] in "\r\n"


def _says_something(text: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether a text ends as a statement, which titles and the items of most lists do not, or has a label."""
    if len(text) > LONGEST:
        return False
    labelled = LABELLED.fullmatch(text) and media_type(metadata) != MAIL
    return bool((labelled and not only_asks(text)) or (len(LETTERS.findall(text)) >= LEAST_WORDS and ENDS.search(text)))


def _is_cut(sentence: ProseSentence, hit: Hit) -> bool:
    """Return whether a sentence seems to begin before its chunk."""
    begins = BEGINS.match(sentence.text) and not sentence.text[0].islower()
    return hit.metadata.get("chunk_index", 0) > 0 and not sentence.span[0] and not begins


def _hidden_spans(reader: Reader, hits: Sequence[Hit], eligible: Eligible) -> Mapping[Key, Sequence[Span]]:
    """Return where in the artifacts of these hits retracted or contested claims were taken from."""
    kept_back = {i for i, standing in eligible.decided.items() if standing.retracted or standing.contested_by}
    if not kept_back:
        return {}
    artifacts = one_of("artifact_id", sorted({hit.artifact_id for hit in hits}))
    columns = ["corpus", "artifact_id", "claim_id", "span_start", "span_end"]
    found: dict[Key, list[Span]] = {}
    for row in reader.records.to_table(
        columns=columns, filter=both(equals("surface_kind", CLAIM), artifacts)
    ).to_pylist():
        if row["claim_id"] in kept_back and row["span_start"] is not None:
            found.setdefault((row["corpus"], row["artifact_id"]), []).append((row["span_start"], row["span_end"]))
    return found


def _measure_meaning(
    searcher: Searcher, reader: Reader, query: str, corpora: Sequence[str], sentences: Sequence[_Sentence]
) -> tuple[Mapping[str, str], Sequence[float | None]]:
    """Return record id -> artifact version, and for each sentence its deviations above unrelated questions.

    These are the sum of those of the sentence and of its passage; None for an embedder without meaning.
    """
    ids = sorted({sentence.hit.record_id for sentence in sentences})
    records = reader.records.to_table(
        columns=["record_id", "artifact_version", "vector"], filter=one_of("record_id", ids)
    )
    versions = dict(zip(records["record_id"].to_pylist(), records["artifact_version"].to_pylist(), strict=True))
    scores = probe_scores(reader, corpora) if versions else NO_SCORES
    if not scores.meaning:
        return versions, [None] * len(sentences)
    asked = reader.embed(query)
    asked = asked / (np.linalg.norm(asked) or 1)
    of_records = dict(zip(versions, (unit(records["vector"].combine_chunks()) @ asked).tolist(), strict=True))
    vectors = require_shape(
        searcher.embedder.embed([sentence.statement for sentence in sentences]), len(sentences), len(asked)
    )
    cosines = np.nan_to_num((vectors @ asked) / np.maximum(np.linalg.norm(vectors, axis=1), 1e-9))
    return versions, [
        (scores.above(float(cosine)) or 0.0) + (scores.above(of_records.get(sentence.hit.record_id, 0.0)) or 0.0)
        for sentence, cosine in zip(sentences, cosines, strict=True)
    ]


def day_of(metadata: Mapping[str, Any], artifact_id: str) -> str:
    """Return the day of the date of a text, or else that in its title or the name of its file; "" if none."""
    date = str(metadata.get("date"))[:10]
    if DAY.fullmatch(date):
        return date
    return named_day(str(metadata.get("title", ""))) or named_day(artifact_id.rpartition("/")[2])


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def overlaps_any(quote: Quote, places: Iterable[tuple[str, str, Span | None]]) -> bool:
    """Return whether a quote shares characters with one of these places: corpus, artifact id and span."""
    return any(
        (corpus, artifact_id) == (quote.corpus, quote.artifact_id) and span is not None and _overlap(quote.span, span)
        for corpus, artifact_id, span in places
    )
