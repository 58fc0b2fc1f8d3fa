"""Verifiers, which decide whether evidence supports a sentence that a model wrote. Their registry is `VERIFIERS`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt, Le
from pydantic import BaseModel, ConfigDict

from findingaid.errors import ModelError
from findingaid.llm.chat import Chat, ChatParameters
from findingaid.llm.prompts import as_data, load_template, to_one_line
from findingaid.protocols import Verifier
from findingaid.query.answers.answer_types import DATE
from findingaid.query.answers.compose import ARTICLES
from findingaid.query.search.rerank import load_cross_encoder
from findingaid.query.search.user_code import component_name, convert_exceptions
from findingaid.registry import Registry, checked
from findingaid.text.analyzer import Lexical
from findingaid.text.clauses import LIMITING, added_exception, lost_qualifier
from findingaid.text.words import WORD, negates, salient, salient_words, stem, stems

Share = Annotated[float, Gt(0), Le(1)]

SUPPORTED = 0.7
"""Default share of a sentence's words that its evidence must have; the sentence may rephrase the others.

It is the value from 0.5 to 0.9 with the highest accuracy on WiCE, see benchmarks/RESULTS.md.
"""

LONG_WORD = re.compile(r"\b[^\W\d_][\w-]+")
WORD_WITHIN = re.compile(r"(?<=[\w,] )[^\W\d_][\w-]+")
"""Words of two letters or more, and those that do not begin a sentence."""

SMALL_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve"
    " thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
    " dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
)
TENS = (
    "ten twenty thirty forty fifty sixty seventy eighty ninety hundred",
    "zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert",
)
NUMBERS = {
    **{word: str(number) for words in SMALL_NUMBERS for number, word in enumerate(words.split(), 1)},
    **{word: f"{number}0" for words in TENS for number, word in enumerate(words.split(), 1)},
    **dict.fromkeys(("thousand", "tausend"), "1000"),
    **dict.fromkeys(("half", "hälfte"), "half"),
    **dict.fromkeys(("twice", "zweimal"), "twice"),
    "third": "3rd",
    **{
        f"{word}th": f"{number}th"
        for number, word in enumerate(("four", "fif", "six", "seven", "eigh", "nin", "ten"), 4)
    },
}
"""Words for numbers, in English and German."""

NO_NUMBER = re.compile(r"\bone (?:another|of)\b|\bno one\b", re.IGNORECASE)

UNITS = {
    word: words.split()[0]
    for words in (
        "% percent prozent",
        "second seconds sekunde sekunden",
        "minute minutes minuten",
        "hour hours stunde stunden",
        "day days tag tage tagen",
        "week weeks woche wochen",
        "month months monat monate monaten",
        "year years jahr jahre jahren",
        "million millions millionen",
        "billion billions milliarde milliarden",
        "am",
        "pm",
        "€ eur euro euros",
        "$ usd dollar dollars",
        "£ gbp",
        "kb",
        "mb",
        "gb",
        "tb",
    )
    for word in words.split()
}
"""Units that change what a number says, by each of their words."""

QUANTITY = re.compile(
    r"(?:\b(?P<most>at most|(?:no|not) more than|(?:less|fewer) than|under|below|up to|maximum of|höchstens|maximal"
    r"|weniger als|bis zu|unter)\s+"
    r"|\b(?P<least>at least|(?:no|not) less than|more than|over|above|exceed(?:s|ing)?|minimum of|mindestens|mehr als"
    r"|über)\s+"
    r"|(?<!\S)(?P<minus>[-\u2212]))?"
    r"(?P<currency>[€$£])?"
    rf"\b(?P<number>\d+(?:[.,]\d+)*|(?:{'|'.join(NUMBERS)})\b)(?:\s|-)?(?P<unit>%|[^\W\d_]+)?",
    re.IGNORECASE,
)
"""Number with what bounds it and the word behind it."""

SAME_BEGINNING = 4
"""Letters at the beginning by which two words count as forms of one."""

OPPOSED = frozenset(
    "all some most many few every always often sometimes first last more less up down over under alle einige".split()  # noqa: SIM905
)
"""Frequent words that change the meaning in the place of one another."""

UNIT = re.compile(rf"(?<=\d)\s*[A-Z]\w*|\b[A-Z]{{3}}\s*(?=\d)|\b(?i:{'|'.join(NUMBERS)})\s+[a-z]+")
"""Number with the word that it counts, as in "9 SEK", "EUR 9" and "nine crowns"."""

CLAUSE_END = re.compile(r"[,;:] |[.!?] |\b(?:and|but|while|whereas)\b")

SENTENCES = 3
"""Number of texts of the evidence that together may support a sentence. Without a limit, long evidence has any word."""


@checked
@dataclass(frozen=True)
class LexicalVerifier:
    """Verifier that compares words, without a model.

    It compares a sentence with the `SENTENCES` texts of its evidence that have most of its words:

    - Together they must have the share `at_least` of its words, as stems, and all of its numbers and names.
    - They must not state one of its numbers of another name only, or otherwise only, see `swapped` and `misstated`.
    - They must not have another word in the place of one of its words, see `substituted`.
    - If the sentence negates, one of them must negate; if it does not, one of them must not.
    - The sentence must keep their exceptions, conditions and doubts, see `lost_qualifier`, and add no exception.

    This finds invented text, but not every change of meaning.
    """

    at_least: Share = SUPPORTED
    lexical: Lexical = field(default_factory=Lexical, repr=False, metadata={"spec": False})
    model: ClassVar[str] = "lexical"

    def objection(self, sentence: str, evidence: Sequence[str]) -> str:
        best = best_sentences(sentence, evidence, self.lexical)
        known = stems(best, self.lexical)
        numbered = known | {_digits(word) for text in best for word in WORD.findall(text)}
        within = filter(_has_capital, WORD_WITHIN.findall(sentence))
        names = [name for name in within if not stems([name], self.lexical) <= known]
        if strange := [*(number for number in _numbers(sentence) if _digits(number) not in numbered), *names]:
            return f"its evidence does not contain {strange[0]}"
        if found := swapped(sentence, best, self.lexical) or misstated(sentence, best):
            return found
        if negates(sentence) and not any(map(negates, best)):
            return "negates its evidence"
        if not negates(sentence) and all(map(negates, best)):
            return "leaves out a negation of its evidence"
        if supported_share(sentence, best, self.lexical) < self.at_least:
            return "its evidence does not support it"
        if lost := next(filter(None, (lost_qualifier(text, sentence, self.lexical) for text in best)), ""):
            return f"leaves out “{lost}” of its evidence"
        if added := added_exception(sentence, best):
            return f"adds “{added}” to its evidence"
        return substituted(sentence, best, self.lexical)


def swapped(sentence: str, evidence: Sequence[str], lexical: Lexical | None = None) -> str:
    """Return which number of a sentence its evidence states of other names only, "" if none.

    "Holm costs nine, Aro twelve" does not support "Aro costs nine". Statements are compared by clause. A sentence whose
    first word alone is capitalized may name nothing, so a clause may have that word as any other.
    """
    first_alone = not any(map(_has_capital, WORD_WITHIN.findall(sentence)))
    stated = [clause for text in evidence for clause in CLAUSE_END.split(text)]
    names = _names(sentence, lexical)
    for number in _numbers(sentence) if names else ():
        clauses = [clause for clause in stated if _digits(number) in map(_digits, _numbers(clause))]
        if first_alone and stems(clauses, lexical or Lexical()) & names.keys():
            continue
        others = [_names(clause, lexical) for clause in clauses]
        if others and all(found and not found.keys() & names.keys() for found in others):
            return f"its evidence states {number} of {next(iter(others[0].values()))}"
    return ""


def misstated(sentence: str, evidence: Sequence[str]) -> str:
    """Return which number of a sentence its evidence states only with another unit, sign or bound, "" if none.

    "5 minutes" does not support "5 hours", nor "at least 18" "at most 18".
    """
    stated = [found for text in evidence for found in QUANTITY.finditer(text)]
    for quantity in QUANTITY.finditer(sentence):
        same = [each for each in stated if _digits(each["number"]) == _digits(quantity["number"])]
        if same and not any(_is_same(quantity, each) for each in same):
            return f"its evidence states {' '.join(same[0][0].split())}"
    return ""


def substituted(sentence: str, evidence: Sequence[str], lexical: Lexical | None = None) -> str:
    """Return which word of its evidence a sentence replaces by one that the evidence does not have, "" if none.

    "It is enabled by default" does not support "it is disabled by default". The words beside it are the same, so that
    the word is a synonym or changes the meaning, in any language.
    """
    lexical = lexical or Lexical()
    known = stems(evidence, lexical)
    words = _words_in_order(sentence)
    forms = [stem(word, lexical) for word in words]
    for text in evidence:
        others = _words_in_order(text)
        matcher = SequenceMatcher(None, [stem(word, lexical) for word in others], forms, autojunk=False)
        for tag, start, end, at, after in matcher.get_opcodes():
            if tag != "replace" or (end - start, after - at) != (1, 1) or forms[at] in known:
                continue
            if _limits(words[at], lexical) and _limits(others[start], lexical) and _differ(words[at], others[start]):
                return f"its evidence has “{others[start]}” instead of “{words[at]}”"
    return ""


def _words_in_order(text: str) -> list[str]:
    return [word for word in WORD.findall(text) if word.casefold() not in ARTICLES]


def _limits(word: str, lexical: Lexical) -> bool:
    """Return whether a word, which is not a number, says something of its own."""
    return not _numbers(word) and (word.casefold() in LIMITING | OPPOSED or bool(salient_words(word, lexical)))


def _differ(word: str, other: str) -> bool:
    """Return whether two words are neither forms of one, nor one the beginning of the other, as "app" is."""
    shared = min(SAME_BEGINNING, len(word), len(other))
    return word[:shared].casefold() != other[:shared].casefold()


def _is_same(quantity: re.Match[str], other: re.Match[str]) -> bool:
    """Return whether one quantity may be the other, of the same number."""
    named = [(each[part] or "").casefold() for each in (quantity, other) for part in ("currency", "unit")]
    units = {UNITS[unit] for unit in named if unit in UNITS}
    opposed = (quantity["most"] and other["least"]) or (quantity["least"] and other["most"])
    return len(units) < 2 and not opposed and bool(quantity["minus"]) == bool(other["minus"])


def _numbers(text: str) -> list[str]:
    return [
        word
        for word in WORD.findall(NO_NUMBER.sub(" ", text))
        if any(map(str.isdigit, word)) or word.casefold() in NUMBERS
    ]


def _has_capital(word: str) -> bool:
    return word != word.lower()  # macOS is a name too


def _digits(number: str) -> str:
    return NUMBERS.get(number.casefold(), number.casefold())


def _names(text: str, lexical: Lexical | None) -> dict[str, str]:
    """Map the stems of capitalized words to these, without the units of numbers."""
    lexical = lexical or Lexical()
    words = filter(_has_capital, LONG_WORD.findall(UNIT.sub(" ", text)))
    found = " ".join(name for name in words if not DATE.fullmatch(name))
    return {stem(word, lexical): word for word in salient_words(found, lexical)}


def best_sentences(sentence: str, evidence: Sequence[str], lexical: Lexical | None = None) -> Sequence[str]:
    """Return at most `SENTENCES` texts of the evidence: those that together have most words of a sentence."""
    if len(evidence) <= SENTENCES:
        return evidence
    missing = set(salient(sentence, lexical))
    left = [(stems([text], lexical), text) for text in evidence]
    chosen: list[str] = []
    while len(chosen) < SENTENCES:
        words, text = best = max(left, key=lambda each: len(each[0] & missing))
        left.remove(best)
        missing -= words
        chosen.append(text)
    return chosen


def supported_share(sentence: str, evidence: Sequence[str], lexical: Lexical | None = None) -> float:
    """Return the share of a sentence's salient words that texts have, as stems; 0 if it has no such words."""
    wanted = salient(sentence, lexical).keys()
    return len(wanted & stems(evidence, lexical)) / len(wanted) if wanted else 0.0


@checked
@dataclass(frozen=True)
class CrossEncoderVerifier:
    """Verifier that runs a cross-encoder for natural language inference, from a folder or the Hugging Face hub.

    It accepts a sentence that its evidence entails with a probability of `at_least`. The model must have a class whose
    label contains "entail", or a single score.
    """

    model: str
    at_least: Share = 0.5
    device: str | None = None
    revision: str | None = None

    def objection(self, sentence: str, evidence: Sequence[str]) -> str:
        probability = self._entailment(" ".join(evidence), sentence)
        return "" if probability >= self.at_least else f"{self.model}: entailed with a probability of {probability:.2f}"

    def _entailment(self, premise: str, statement: str) -> float:
        encoder = self._encoder
        scores = np.atleast_1d(
            encoder.predict([(premise, statement)], activation_fn=_unchanged, show_progress_bar=False)[0]
        )
        if len(scores) == 1:
            return float(1 / (1 + np.exp(-scores[0])))
        odds = np.exp(scores - scores.max())
        return float(odds[self._entailed] / odds.sum())

    @cached_property
    def _entailed(self) -> int:
        labels = self._encoder.config.id2label
        found = [
            int(place) for place, label in labels.items() if "entail" in label.lower() and "not" not in label.lower()
        ]
        if len(found) != 1:
            raise ModelError(
                f"verifier.model: {self.model!r} has the classes {', '.join(labels.values())}: choose a model with a"
                " class entailment"
            )
        return found[0]

    @cached_property
    def _encoder(self) -> Any:
        return load_cross_encoder("verifier", self.model, device=self.device, revision=self.revision)


def _unchanged(scores: Any) -> Any:
    return scores


class _Judged(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title="Judgement")
    supported: bool
    reason: str


@checked
@dataclass(frozen=True, kw_only=True)
class OpenAIVerifier(ChatParameters):
    """Verifier that asks a chat model at an OpenAI-compatible endpoint, once for each sentence."""

    @cached_property
    def _chat(self) -> Chat[_Judged]:
        return self.chat(_Judged)

    def objection(self, sentence: str, evidence: Sequence[str]) -> str:
        texts = [f"Evidence {number}:\n{as_data(text)}" for number, text in enumerate(evidence, 1)]
        judged = self._chat.ask(load_template("verify"), "\n\n".join(["Sentence:\n" + as_data(sentence), *texts]))
        return "" if judged.supported else f"{self.model}: {to_one_line(judged.reason) or 'not supported'}"


def find_objection(verifier: Verifier, sentence: str, evidence: Sequence[str]) -> str:
    """Return why evidence does not support a sentence, "" if it does. Raises ModelError if the verifier fails."""
    if not evidence:
        return "cites none of the evidence that it was given"
    name = component_name("verifier", verifier)
    with convert_exceptions(name):
        reason: Any = verifier.objection(sentence, evidence)
    if not isinstance(reason, str):
        raise ModelError(f"{name}: returned {repr(reason)[:80]}, expected a reason or an empty text", "parse")
    return reason


VERIFIERS: Registry[Verifier] = Registry(
    "verifier",
    "kind",
    Verifier,
    "findingaid.verifiers",
    {
        "cross-encoder": "findingaid.query.answers.verification:CrossEncoderVerifier",
        "lexical": "findingaid.query.answers.verification:LexicalVerifier",
        "openai": "findingaid.query.answers.verification:OpenAIVerifier",
    },
)
