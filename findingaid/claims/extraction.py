"""Claim extractors, their registry, and the checks that turn extracted statements into claims."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt

from findingaid.claims.forms import SHOWN_OF_REFUSED
from findingaid.claims.model import Claim, Evidence, claim_id, evidence_of, normalise_claim
from findingaid.errors import ConfigError, SynthesisError
from findingaid.identity.fingerprints import CLAIM_EXTRACTOR, producer_id
from findingaid.llm.prompts import CONTROLS
from findingaid.protocols import ClaimExtractor, ExplainingExtractor, Extraction, LeftOut, Statement
from findingaid.registry import Importable, Registry, checked
from findingaid.synthesis.custom import call_function, check_function
from findingaid.text.analyzer import ALPHANUMERIC
from findingaid.text.prose import ProseSentence, prose_sentences, without_markup
from findingaid.text.words import LETTERS

CLAIM_EXTRACTORS: Registry[ClaimExtractor] = Registry(
    "claim extractor",
    "kind",
    ClaimExtractor,
    "findingaid.claim_extractors",
    {
        "custom": "findingaid.claims.extraction:CustomClaims",
        "extractive": "findingaid.claims.extraction:ExtractiveClaims",
        "openai": "findingaid.claims.openai_claims:OpenAIClaims",
    },
)

HINTS = ("text_type", "media_type", "readme_type")
"""Metadata keys passed to an extractor with a text; they say how to read the text."""

PROSE = frozenset({"text/markdown", "text/plain", "text/html", "text/x-rst"})
"""Media types of texts that have sentences. A text of another type, such as a program, yields no claims.

A text without a type counts as Markdown.
"""

LEAST, MOST = 10, 600
"""Minimum and maximum characters of a claim. A shorter text says nothing by itself; a longer one is a passage."""

LEAST_WORDS = 3

SHORT = 25
"""Characters below which an exclamation, such as "Thanks for asking!", says nothing."""

ENDS = re.compile(r"[.!…\u3002\uff01][\"'\u2019”»)\]]*$")
BEGINS = re.compile(r"[\"'\u2018“«(\[]*(?:[^\W\d_]|\d)")

POINTS_BACK = re.compile(
    r"(?:this|that|these|those|it|its|they|their|them|he|she|his|her|such|here|there|both|otherwise|instead|so|then)\b",
    re.IGNORECASE,
)
"""Opening words of a sentence that usually refers to the text before it."""

POINTS_ELSEWHERE = re.compile(r"(?:see|cf\.?|refer to|read|click|note that|for example|e\.g\.)\b", re.IGNORECASE)

TYPES: Mapping[str, re.Pattern[str]] = {
    "decision": re.compile(r"\b(decided|decision|chose|chosen|agreed|settled on|we (?:will )?use)\b", re.IGNORECASE),
    "requirement": re.compile(r"\b(must|shall|required?|requires|needs? to|has to|have to|never)\b", re.IGNORECASE),
}
"""Claim type -> words that indicate it. The first match wins; a sentence without a match is a fact."""

ENTITIES = 12
"""Maximum number of entities of one claim; the first ones are kept."""

# The lookaheads at the beginning change nothing: they say early that there is no match.
NAME = re.compile(
    r"(?=[A-ZÀ-ÖØ-Þ])(?<![\w.])[A-ZÀ-ÖØ-Þ][\w&+-]*(?:\s+(?:of|de|von|van|der|la)?\s*[A-ZÀ-ÖØ-Þ0-9][\w.&+-]*\b)*"
)
TERM = re.compile(
    r"\b(?!\W|[A-Z]?[a-z]+(?:[\s,;:]|\.\s))"
    r"(?:\w+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Z]{2,}\w*|\w+(?:\.\w+)+\(\)|\w+\(\))"
)
CODE_CHARACTERS = 60

FOLDED = str.maketrans("‘’“”«»‐‑‒–—", '\'\'""""-----')  # noqa: RUF001  # the characters to fold
"""Typographic quotes and dashes, which models use in place of others, mapped to ASCII."""

LITTLE = frozenset({
    *("a", "an", "the", "this", "that", "these", "those", "it", "its", "their", "his", "her", "our", "your", "and"),
    *("also", "so", "then", "just", "very", "ever", "is", "are", "be", "of", "in"),
    *("der", "die", "das", "ein", "eine", "und", "auch", "ist", "sind", "le", "la", "les", "un", "une", "et", "est"),
})  # fmt: skip
"""Stop words: without them, a claim still says the same."""


@checked
@dataclass(frozen=True)
class ExtractiveClaims:
    """Sentences of the text that state something, word for word: no model, no network, nothing invented.

    Takes whole sentences of the text's prose that have `shortest` to `longest` characters and at least three words.
    Skips questions, headings, code, tables, lists of links, and sentences that are cut off. A sentence that opens by
    referring back ("This …") gets half the confidence. `left_out` says why it takes no more.
    """

    shortest: Annotated[int, Gt(0)] = 15
    longest: Annotated[int, Gt(0)] = 400
    free: ClassVar[Literal[True]] = True
    version: ClassVar[int] = 5

    def __post_init__(self) -> None:
        if not LEAST <= self.shortest <= self.longest <= MOST:
            raise ConfigError(f"shortest: expected {LEAST} <= shortest <= longest <= {MOST}")

    @property
    def id(self) -> str:
        return f"extractive-{self.shortest}-{self.longest}-v{self.version}"

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        if _not_prose(metadata):
            return Extraction()
        return Extraction([_statement(text, s) for s in sentences_of(text, metadata) if not self._why_not(s)])

    def left_out(self, text: str, metadata: Mapping[str, Any]) -> list[LeftOut]:
        if kind := _not_prose(metadata):
            return [LeftOut("", f"{kind} is not prose")]
        sentences = list(sentences_of(text, metadata))
        if not sentences:
            return [LeftOut("", "no sentences outside headings, code, tables and lists of links")]
        return [LeftOut(s.text, why) for s in sentences if (why := self._why_not(s))]

    def _why_not(self, sentence: ProseSentence) -> str:
        """Return why a sentence is not meaningful by itself; "" if it is."""
        words = sentence.text
        count = len(LETTERS.findall(words))
        return next((why for why, applies in (
            ("a question", words.rstrip("\"')”»").endswith("?")),
            (f"{count} word{'s' * (count != 1)}, {LEAST_WORDS} needed", count < LEAST_WORDS),
            (f"{len(words)} characters, {self.shortest} needed", len(words) < self.shortest),
            (f"{len(words)} characters, {self.longest} at most", len(words) > self.longest),
            ("does not end as a sentence", not ENDS.search(words)),
            ("an exclamation of a few words", len(words) < SHORT and not words.endswith(".")),
            ("begins within a sentence", not BEGINS.match(words) or (not sentence.first and words[0].islower())),
            ("points to another place", bool(POINTS_ELSEWHERE.match(words))),
        ) if applies), "")  # fmt: skip


def _not_prose(metadata: Mapping[str, Any]) -> str:
    """Return the type of a text that has no sentences, such as a program; "" for prose."""
    kind = media_type(metadata)
    return "" if kind in PROSE or metadata.get("readme_type") in PROSE else kind


def media_type(metadata: Mapping[str, Any]) -> str:
    """Return the media type of a text by the metadata of its artifact."""
    return next((str(metadata[key]) for key in HINTS if metadata.get(key)), "text/markdown")


def sentences_of(text: str, metadata: Mapping[str, Any]) -> Iterator[ProseSentence]:
    """Yield the sentences of a text, read as the metadata of its artifact says."""
    kind = media_type(metadata)
    return prose_sentences(text, "text/markdown" in {kind, metadata.get("readme_type")})


def _statement(text: str, sentence: ProseSentence) -> Statement:
    kind = next((kind for kind, cue in TYPES.items() if cue.search(sentence.text)), "fact")
    return Statement(
        sentence.text,
        text[slice(*sentence.span)],
        sentence.span,
        kind,
        0.5 if POINTS_BACK.match(sentence.text) else 1.0,
        _entities(sentence),
    )


def _entities(sentence: ProseSentence) -> list[str]:
    """Return names and terms: inline code, identifiers, and capitalized words within the sentence."""
    text = sentence.text
    placed = [(text.find(code), code) for code in sentence.code if code.strip() and len(code) <= CODE_CHARACTERS]
    placed += [(found.start(), found[0]) for found in TERM.finditer(text)]
    for found in NAME.finditer(text):
        # The first word of a sentence has a capital anyway.
        if found.start() or " " in found[0] or any(c.isupper() or c.isdigit() for c in found[0][1:]):
            placed.append((found.start(), found[0].rstrip(".")))
    named = [name for _, name in sorted(placed) if LETTERS.search(name)]
    return [n for n in dict.fromkeys(named) if not any(n != other and n in other for other in named)][:ENTITIES]


@checked
@dataclass(frozen=True)
class CustomClaims:
    """Statements returned by `function(text, metadata)`, which may be async.

    An exception is a failure, an empty list means no claims.

    Each item is a `findingaid.protocols.Statement`, or a mapping of its fields. In a configuration, the function is an
    import path, "module:function". The id is `name`, else the function's own attribute `extractor_id`, else its
    qualified name and a hash of its code and of the values it holds.
    """

    function: Importable
    name: str | None = None

    def __post_init__(self) -> None:
        check_function(self.function, self.name, CLAIM_EXTRACTOR)

    @cached_property
    def id(self) -> str:
        return self.name or producer_id(self.function, CLAIM_EXTRACTOR)

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        found = call_function(self.function, text, metadata)
        if isinstance(found, Extraction):
            return found
        try:
            return Extraction([one if isinstance(one, Statement) else Statement(**one) for one in found])
        except TypeError as error:
            raise SynthesisError(f"{self.id} returned no statements: {error}", "parse") from error


def why_no_claims(extractor: ClaimExtractor, text: str, metadata: Mapping[str, Any]) -> str:
    """Return why an extractor finds no claim in a text, short enough to group artifacts by it."""
    if not text.strip():
        return "no text"
    left = extractor.left_out(text, metadata) if isinstance(extractor, ExplainingExtractor) else []
    whole = next((one.reason for one in left if not one.text), "")
    return whole or ("no whole sentence that states something" if left else "the extractor found none")


# -- checking ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimOrigin:
    """Artifact that claims belong to, and the producer that found them."""

    corpus: str
    artifact_id: str
    version: str
    text: str
    producer_id: str


def claims_from(
    statements: Sequence[Statement], of: ClaimOrigin, refuses: bool = True, min_confidence: float = 0.0
) -> tuple[list[Claim], list[str]]:
    """Convert statements to claims, each once; return the claims, and a line for each refused statement.

    With `refuses=False`, the checks of length, form and quote are skipped: a person's statement may be short, and may
    quote text that is not in the artifact. Statements of a confidence below `min_confidence` are refused.
    """
    claims: dict[str, Claim] = {}
    refused: list[str] = []
    for statement in statements:
        try:
            claim = _claim(statement, of, refuses, min_confidence)
        except ValueError as error:
            shown = " ".join(str(statement.text).split())[:SHOWN_OF_REFUSED]
            refused.append(f"{of.artifact_id}: {shown!r} {error}")
        else:
            claims.setdefault(claim.claim_id, claim)
    return list(claims.values()), refused


def doubt(confidence: object, least: float) -> str:
    """Return why a confidence is refused: it is not a number from 0 to 1, or below `least`; "" if it is accepted."""
    if not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return f"has the confidence {confidence}, expected a number from 0 to 1"
    return f"has the confidence {confidence:g}, below min_confidence {least:g}" if confidence < least else ""


def _claim(statement: Statement, of: ClaimOrigin, refuses: bool, min_confidence: float) -> Claim:
    """Return the claim that a statement makes. Raises ValueError, with the reason, if the statement is refused."""
    text = " ".join(str(statement.text).split())
    text.encode()  # raises UnicodeEncodeError, a ValueError, for text that no table can hold
    if refuses and (why := _unfit(text)):
        raise ValueError(why)
    if why := doubt(statement.confidence, min_confidence):
        raise ValueError(why)
    span = locate_quote(of.text, statement.quote, statement.span)
    quote = of.text[slice(*span)] if span else statement.quote
    evidence = Evidence.VERIFIED if span else evidence_of(of.text, quote, None)
    if refuses and evidence is Evidence.FORGED:
        raise ValueError("has a quote that is not in the text")
    said = evidence is Evidence.VERIFIED
    verbatim = said and (text == quote or _same_words(text, quote))
    return Claim(
        claim_id(of.corpus, text),
        of.corpus,
        of.artifact_id,
        text,
        str(statement.type) or "fact",
        float(statement.confidence),
        tuple(map(str, statement.entities)),
        quote,
        span,
        evidence,
        verbatim,
        of.producer_id,
        of.version,
    )


def _same_words(text: str, quote: str) -> bool:
    return normalise_claim(without_markup(text)) == normalise_claim(without_markup(quote))


def _unfit(text: str) -> str:
    """Return why a text cannot be a claim; "" if it can."""
    if len(text) < LEAST or len(LETTERS.findall(text)) < LEAST_WORDS:
        return "is too short for a statement"
    if len(text) > MOST:
        return f"is longer than {MOST} characters"
    return "is a question" if text.endswith("?") else ""


def locate_quote(text: str, quote: str, span: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """Return the span of a quote in a text: `span` if the quote is there, else its first occurrence, else None.

    White space, typographic quotes and dashes, and invisible characters may differ.
    """
    quote = quote.strip()
    if not quote:
        return None
    if (
        span
        and evidence_of(text, text[slice(*span)], span) is Evidence.VERIFIED
        and text[slice(*span)].strip() == quote
    ):
        return span
    if (start := text.find(quote)) >= 0:
        return start, start + len(quote)
    sought = "".join(character for character, _ in _folded(quote))
    folded = list(_folded(text))
    start = "".join(character for character, _ in folded).find(sought) if sought else -1
    return None if start < 0 else (folded[start][1], folded[start + len(sought) - 1][1] + 1)


def _folded(text: str) -> Iterator[tuple[str, int]]:
    """Yield the characters to compare, each with its position.

    A run of white space yields one space; white space at either end yields none.
    """
    space = False
    begun = False
    for place, character in enumerate(text.translate(FOLDED)):
        if CONTROLS.match(character):
            continue
        if character.isspace():
            space = begun
            continue
        if space:
            yield " ", place
        yield character, place
        space, begun = False, True


def without_repeats(
    claims: Sequence[Claim], may_drop: Callable[[Claim], bool], vector: Callable[[Claim], Any], near: float
) -> list[Claim]:
    """Drop claims that repeat an earlier claim.

    A claim is a repeat if it has the same words in the same order, apart from stop words, and a vector with a cosine of
    `near` or more to that of the earlier claim. It is dropped only if `may_drop` allows it.

    Vectors alone cannot separate claims that must both stay: "Readers wait for writers." and "Writers wait for
    readers." have a cosine of 0.99 in all-MiniLM-L6-v2, and replacing "decreased" by "increased" leaves a cosine of
    0.98.
    """
    kept: list[Claim] = []
    alike: dict[tuple[str, ...], list[Any]] = {}
    for claim in claims:
        found = vector(claim)
        known = alike.setdefault(_said(claim.text), [])
        if found is not None and may_drop(claim) and any(float(found @ other) >= near for other in known):
            continue
        kept.append(claim)
        if found is not None:
            known.append(found.astype("float32"))
    return kept


def _said(text: str) -> tuple[str, ...]:
    """Return the words of a claim, in order, without stop words."""
    return tuple(word for word in ALPHANUMERIC.findall(normalise_claim(text)) if word not in LITTLE)


def carry_claim_over(claim: Claim, of: ClaimOrigin) -> Claim | None:
    """Return a claim of an earlier artifact version as a claim of this version; None if its quote is gone."""
    span = locate_quote(of.text, claim.quote, claim.span)
    return replace(claim, span=span, quote=of.text[slice(*span)], artifact_version=of.version) if span else None
