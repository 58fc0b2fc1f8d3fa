"""Who finds claims, by name; and what is taken of what they find: what is there, says something, and only once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt

from findingaid.claims.forms import SHOWN_OF_REFUSED
from findingaid.claims.model import Claim, Evidence, claim_id, evidence_of, normalised
from findingaid.claims.prose import Sentence, plain, sentences
from findingaid.errors import ConfigError, SynthesisError
from findingaid.model import ClaimExtractor, Extraction, Statement
from findingaid.registry import STRICT, Importable, Registry
from findingaid.synthesis.custom import Custom
from findingaid.synthesis.prompting import CONTROLS

CLAIM_EXTRACTORS: Registry[ClaimExtractor] = Registry(
    "claim extractor",
    "kind",
    {
        "custom": "findingaid.claims.extraction:CustomClaims",
        "extractive": "findingaid.claims.extraction:ExtractiveClaims",
        "openai": "findingaid.claims.openai_claims:OpenAIClaims",
    },
)

HINTS = ("text_type", "media_type", "readme_type")
"""Metadata that an extractor is shown beside a text: how to read it."""

PROSE = frozenset({"text/markdown", "text/plain", "text/html", "text/x-rst"})
"""Types of texts that have sentences; one of another type, such as a program, has none, and one without counts as
Markdown."""

LEAST, MOST = 10, 600
"""Characters of a claim: what is shorter says nothing by itself, what is longer is a passage."""

LEAST_WORDS = 3

WORD = re.compile(r"[^\W\d_]{2,}")
ENDS = re.compile(r"[.!…\u3002\uff01][\"'\u2019”»)\]]*$")
BEGINS = re.compile(r"[\"'\u2018“«(\[]*(?:[^\W\d_]|\d)")

POINTS_BACK = re.compile(
    r"(?:this|that|these|those|it|its|they|their|them|he|she|his|her|such|here|there|both|otherwise|instead|so|then)\b",
    re.IGNORECASE,
)
"""Words at whose beginning a sentence mostly speaks of what stands before it."""

POINTS_ELSEWHERE = re.compile(r"(?:see|cf\.?|refer to|read|click|note that|for example|e\.g\.)\b", re.IGNORECASE)

TYPES: Mapping[str, re.Pattern[str]] = {
    "decision": re.compile(r"\b(decided|decision|chose|chosen|agreed|settled on|we (?:will )?use)\b", re.IGNORECASE),
    "requirement": re.compile(r"\b(must|shall|required?|requires|needs? to|has to|have to|never)\b", re.IGNORECASE),
}
"""What a sentence is where it has one of these words, and else a fact."""

ENTITIES = 12
"""Entities of one claim, the first."""

NAME = re.compile(r"(?<![\w.])[A-ZÀ-ÖØ-Þ][\w&+-]*(?:\s+(?:of|de|von|van|der|la)?\s*[A-ZÀ-ÖØ-Þ0-9][\w.&+-]*\b)*")
TERM = re.compile(r"\b(?:\w+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Z]{2,}\w*|\w+(?:\.\w+)+\(\)|\w+\(\))")
CODE_CHARACTERS = 60

FOLDED = str.maketrans("‘’“”«»‐‑‒–—", '\'\'""""-----')  # noqa: RUF001  # those are what is folded
"""Quotes and dashes that models write in place of others."""

ANY_WORD = re.compile(r"[^\W_]+")
LITTLE = frozenset({
    *("a", "an", "the", "this", "that", "these", "those", "it", "its", "their", "his", "her", "our", "your", "and"),
    *("also", "so", "then", "just", "very", "ever", "is", "are", "be", "of", "in"),
    *("der", "die", "das", "ein", "eine", "und", "auch", "ist", "sind", "le", "la", "les", "un", "une", "et", "est"),
})  # fmt: skip
"""Words without which a claim still says the same."""


@dataclass(frozen=True)
class ExtractiveClaims:
    """The text's own sentences that state something, word for word: no model, no network, nothing invented.

    Taken are whole sentences of its prose of `shortest` to `longest` characters: no questions, no headings, code,
    tables or lists of links, nothing that ends in the middle. A sentence that begins by pointing back ("This …") is
    half as sure.
    """

    shortest: Annotated[int, Gt(0)] = 25
    longest: Annotated[int, Gt(0)] = 400
    free: ClassVar[Literal[True]] = True
    version: ClassVar[int] = 1
    __pydantic_config__: ClassVar = STRICT

    def __post_init__(self) -> None:
        if not LEAST <= self.shortest <= self.longest <= MOST:
            raise ConfigError(f"shortest: expected {LEAST} <= shortest <= longest <= {MOST}")

    @property
    def id(self) -> str:
        return f"extractive-{self.shortest}-{self.longest}-v{self.version}"

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        kinds = (metadata.get(key) for key in HINTS)
        kind = next((str(kind) for kind in kinds if kind), "text/markdown")
        if kind not in PROSE and metadata.get("readme_type") not in PROSE:
            return Extraction()
        found = sentences(text, "text/markdown" in {kind, metadata.get("readme_type")})
        return Extraction([_statement(text, sentence) for sentence in found if self._states(sentence)])

    def _states(self, sentence: Sentence) -> bool:
        """Whether a sentence says something by itself."""
        words = sentence.text
        return bool(
            self.shortest <= len(words) <= self.longest
            and ENDS.search(words)
            and BEGINS.match(words)
            and (sentence.first or not words[0].islower())
            and not POINTS_ELSEWHERE.match(words)
            and len(WORD.findall(words)) >= LEAST_WORDS + 1
        )


def _statement(text: str, sentence: Sentence) -> Statement:
    kind = next((kind for kind, cue in TYPES.items() if cue.search(sentence.text)), "fact")
    return Statement(
        sentence.text,
        text[slice(*sentence.span)],
        sentence.span,
        kind,
        0.5 if POINTS_BACK.match(sentence.text) else 1.0,
        _entities(sentence),
    )


def _entities(sentence: Sentence) -> list[str]:
    """Names and terms: what is code, what looks like it, what is written with a capital within the sentence."""
    text = sentence.text
    placed = [(text.find(code), code) for code in sentence.code if code.strip() and len(code) <= CODE_CHARACTERS]
    placed += [(found.start(), found[0]) for found in TERM.finditer(text)]
    for found in NAME.finditer(text):
        # The first word of a sentence has a capital anyway.
        if found.start() or " " in found[0] or any(c.isupper() or c.isdigit() for c in found[0][1:]):
            placed.append((found.start(), found[0].rstrip(".")))
    named = [name for _, name in sorted(placed) if WORD.search(name)]
    return [n for n in dict.fromkeys(named) if not any(n != other and n in other for other in named)][:ENTITIES]


@dataclass(frozen=True)
class CustomClaims:
    """Asks `function(text, metadata)` for statements: an exception is a failure, an empty list nothing to say.

    Each is a `findingaid.model.Statement`, or a mapping of its fields. In a configuration the function is an import
    path, "module:function". The `name` given here, or the function's own attribute `extractor_id`, is the id; else its
    qualified name and a hash of its module's code.
    """

    function: Importable
    name: str | None = None
    __pydantic_config__: ClassVar = STRICT

    @cached_property
    def id(self) -> str:
        return Custom(self.function, self.name or getattr(self.function, "extractor_id", None)).id

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        found = self.function(text, metadata)
        if isinstance(found, Extraction):
            return found
        try:
            return Extraction([one if isinstance(one, Statement) else Statement(**one) for one in found])
        except TypeError as error:
            raise SynthesisError(f"{self.id} gave no statements: {error}", "parse") from error


# -- what is taken -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """The artifact that claims are of, and who found them."""

    corpus: str
    artifact_id: str
    version: str
    text: str
    producer_id: str


def taken(statements: Sequence[Statement], of: Origin, refuses: bool = True) -> tuple[list[Claim], list[str]]:
    """The claims that statements are, each once, and why others are none, a line each.

    What is `refused` otherwise is kept as what it is: a person's words may be short, and quote what is not there.
    """
    claims: dict[str, Claim] = {}
    refused: list[str] = []
    for statement in statements:
        try:
            claim = _claim(statement, of, refuses)
        except ValueError as error:
            shown = " ".join(str(statement.text).split())[:SHOWN_OF_REFUSED]
            refused.append(f"{of.artifact_id}: {shown!r} {error}")
        else:
            claims.setdefault(claim.claim_id, claim)
    return list(claims.values()), refused


def _claim(statement: Statement, of: Origin, refuses: bool) -> Claim:
    """Raises ValueError with the reason why a statement is none."""
    text = " ".join(str(statement.text).split())
    text.encode()  # UnicodeEncodeError, which is a ValueError, for what no table can hold
    if refuses and (why := _unfit(text)):
        raise ValueError(why)
    span = located(of.text, statement.quote, statement.span)
    quote = of.text[slice(*span)] if span else statement.quote
    evidence = Evidence.VERIFIED if span else evidence_of(of.text, quote, None)
    if refuses and evidence is Evidence.FORGED:
        raise ValueError("quotes what is not in the text")
    said = evidence is Evidence.VERIFIED
    verbatim = said and (text == quote or normalised(plain(text)) == normalised(plain(quote)))
    return Claim(
        claim_id(of.corpus, text),
        of.corpus,
        of.artifact_id,
        text,
        str(statement.type) or "fact",
        min(1.0, max(0.0, float(statement.confidence))),
        tuple(map(str, statement.entities)),
        quote,
        span,
        evidence,
        verbatim,
        of.producer_id,
        of.version,
    )


def _unfit(text: str) -> str:
    """Why a text cannot be a claim; "" where it can."""
    if len(text) < LEAST or len(WORD.findall(text)) < LEAST_WORDS:
        return "is too short to say something by itself"
    if len(text) > MOST:
        return f"is longer than {MOST} characters"
    return "is a question" if text.endswith("?") else ""


def located(text: str, quote: str, span: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """Where a quote stands in a text: where it is said to, or where it is first found; None where it is not.

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
    """The characters that count, each with its place; a run of white space is one space, and none at the ends."""
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
    """The claims without those that say what one before them does: by vectors with a cosine of `near` or more, and by
    the same words in the same order but for those that say little.

    Vectors alone do not tell apart what must both stay: "Readers wait for writers." and "Writers wait for readers."
    have a cosine of 0.99 in all-MiniLM-L6-v2, and an "increased" in the place of a "decreased" leaves one of 0.98.
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
    """The words of a claim, those that say little apart."""
    return tuple(word for word in ANY_WORD.findall(normalised(text)) if word not in LITTLE)


def redated(claim: Claim, of: Origin) -> Claim | None:
    """A claim of an earlier version of its artifact as one of this; None where its quote is no longer there."""
    span = located(of.text, claim.quote, claim.span)
    return replace(claim, span=span, quote=of.text[slice(*span)], artifact_version=of.version) if span else None
