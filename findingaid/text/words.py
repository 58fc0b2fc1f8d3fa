"""Words of a text: salient words and their stems, negation, and n-grams."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import get_args

from findingaid.text.analyzer import ENGLISH, Language, Lexical, identifiers, split_identifiers
from findingaid.text.folding import folded, normalized, normalized_places

ASKING: dict[Language, str] = {
    "English": "tell explain describe summarize summarise please let us say said says happens mean means also may might"
    " must shall",
    "German": "wann wer wen wem wessen wo woher wohin warum wieso weshalb wodurch womit wofür wozu woran worauf wovon"
    " wieviel wieviele viel viele seit wurde wurden muss müssen darf dürfen gibt heißt lautet bitte nenne erkläre"
    " beschreibe",
}
"""Words that say how to answer, not about which subject, and are no stop words."""

MEASURE_ASKED = re.compile(
    r"(?i)\b(?:(how) (?:many|much|few|little|long|often|frequently|far|near|close|old|young|new|recent|big"
    r"|large|small|tall|high|low|deep|wide|thick|thin|heavy|light|hot|warm|cold|fast|quick|quickly|slow|slowly|soon"
    r"|late|early|expensive|cheap|likely|strong|loud|hard|well|good|bad)"
    r"|(wie) (?:viele?n?|wenige?|oft|häufig|lange?|weit|nahe?|alt|jung|neu|groß|klein|hoch|niedrig|tief|breit|dick"
    r"|dünn|schwer|leicht|heiß|warm|kalt|schnell|langsam|bald|spät|früh|teuer|stark|laut|gut|schlecht))\b"
)
"""Beginning of a question for a measure. Its answer states the measure, and seldom has the adjective: "how hot"."""

FEWEST_FUNCTION_WORDS = 2
"""Function words of another language that a text must have at least, to be in that language."""

LANGUAGE_CHARS = 600
"""Characters of a text that tell its language. More take longer: each word is looked up in every language."""

FUNCTION_WORDS_KEPT = 1 << 14
TEXTS_KEPT = 64
"""Texts whose language is remembered: the steps of one answer ask for that of its question several times."""

CJK = r"\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Characters of Chinese and Japanese, whose words no blank separates. Part of a set in a pattern."""

CJK_RUN = re.compile(f"[{CJK}]+")
PAIR = 2

WORD = re.compile(
    rf"""
    v?\d+(?:[.,]\d+)+           # 3.11, v1.2.3, 1,000
  | [^\W\d_]\+\+ | [^\W\d_]\#   # C++, C#
  | (?<!\w)\.NET\b
  | [{CJK}]+
  | [^\W_{CJK}]+                # all else ends at punctuation, also at _
    """,
    re.VERBOSE | re.IGNORECASE,
)
APOSTROPHE = re.compile(r"(?<=\w)['’](?:s|re|ve|ll|d|m|t)\b", re.IGNORECASE)  # noqa: RUF001  # as it is typed

LETTERS = re.compile(r"[^\W\d_]{2,}")
"""Word of two letters or more, without digits."""

NEGATIONS = frozenset(
    """
    not no never neither nor none nothing nobody nowhere cannot without
    nicht kein keine keinem keinen keiner keines nie niemals niemand nichts ohne weder
    geen niet nooit niemand niets zonder ikke ikkje aldri aldrig ingen intet uden uten inte inget inga utan
    aucun aucune jamais pas rien sans jamás ningún ninguna ninguno nada nadie nunca sin
    nenhum nenhuma ninguém não sem nessun nessuna nessuno niente senza
    fără niciodată niciun nicio nimeni ei eivät ilman nem nincs senki soha değil hiç yok
    без не нельзя нет никогда никто ничего δεν δε μην όχι ποτέ χωρίς بدون غير لا لم لن ليس
    """.split()  # noqa: SIM905  # a paragraph is easier to read than a list
)
"""Words that negate, in the languages of `Lexical`, without those that are frequent words of another language."""

CJK_NOT = re.compile("[不没沒無无未]|ない|なかった|なく|ません")
"""Signs that negate within a run of Chinese or Japanese words."""

CONTRACTED_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)  # noqa: RUF001  # as it is typed

MONTHS: Mapping[Language, str] = {
    "English": "January February March April May June July August September October November December",
    "German": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
}
DATE_IN_DIGITS = re.compile(
    r"\b(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])\b|\b\d{1,2}\.(?P<dotted>0?[1-9]|1[0-2])\.(?P<last>\d{4})\b"
)
"""ISO 8601 date of a month or day, or a day with dots, such as 2026-07, 2026-07-01 and 1.7.2026."""

MONTH_OR_VERB = "May"
"""Month that is a stop word without its capital, and at the beginning of a sentence."""

IRREGULAR_FORMS = """
become became; begin began begun; break broke broken; bring brought; build built; buy bought; catch caught;
choose chose chosen; come came; draw drew drawn; drive drove driven; fall fell fallen; feel felt; find found;
fly flew flown; forget forgot forgotten; get got gotten; give gave given; grow grew grown; hang hung; hear heard;
hide hid hidden; hold held; keep kept; know knew known; lead led; leave left; lend lent; lose lost; make made;
mean meant; meet met; pay paid; ride rode ridden; ring rang rung; rise rose risen; run ran; say said; sell sold;
send sent; shake shook shaken; sing sang sung; sink sank sunk; sit sat; sleep slept; speak spoke spoken; spend spent;
steal stole stolen; stick stuck; swear swore sworn; swim swam swum; take took taken; teach taught; tell told;
think thought; throw threw thrown; understand understood; wake woke woken; wear wore worn; win won;
withdraw withdrew withdrawn; write wrote written; child children; foot feet; man men; tooth teeth; woman women
"""
"""English words with their irregular forms, of which a stemmer does not know that they are forms of one word."""

IRREGULAR = {form: base for base, *forms in map(str.split, IRREGULAR_FORMS.split(";")) for form in forms}

OPERATORS = frozenset({"AND", "OR", "NOT"})
STEMS_KEPT = 1 << 16

ENGLISH_STOP_WORDS = frozenset(ENGLISH.split())


def negates(text: str) -> bool:
    """Return whether a text contains a negation."""
    words = WORD.findall(text.casefold())
    return not NEGATIONS.isdisjoint(words) or bool(CONTRACTED_NOT.search(text) or CJK_NOT.search(text))


def ngrams(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    """Return every run of `length` consecutive words."""
    return [tuple(words[start : start + length]) for start in range(len(words) - length + 1)]


def salient(text: str, lexical: Lexical | None = None) -> dict[str, str]:
    """Map the stem of each salient word of a text to the word as first written; if no word is salient, map all words.

    Words are split at punctuation: "auth/jwt" is two words. Short names count, such as C++, UI and Go. A stop word in
    capitals, such as IT, counts as a name unless the whole text is in capitals, and so does the month May.
    """
    lexical = lexical or Lexical()
    found: dict[str, str] = {}
    for word in salient_words(text, lexical) or _words(text):
        found.setdefault(stem(word, lexical), word)
    return found


def salient_words(text: str, lexical: Lexical) -> list[str]:
    """Return the words of a text without stop words; none for a text of stop words alone.

    The adjective of `MEASURE_ASKED` counts only if no other word is left.
    """
    shouted = text.upper() == text and len(_words(text)) > 1

    def without_stop_words(text: str) -> list[str]:
        return [
            word
            for place, word in enumerate(_words(text))
            if not _is_stop(word, lexical) or (not shouted and (_is_name(word) or (place and word == MONTH_OR_VERB)))
        ]

    rest = MEASURE_ASKED.sub(lambda asked: asked[1] or asked[2], text)
    return without_stop_words(rest) or without_stop_words(text)


def stems(texts: Iterable[str], lexical: Lexical | None = None) -> frozenset[str]:
    """Return the stems of all words of the texts, stop words included. The texts cover a word if its stem is in it.

    An identifier has the words of its parts and that of the whole, a date in digits its year and the name of its month.
    """
    lexical = lexical or Lexical()
    return frozenset(
        stem(word, lexical)
        for text in texts
        for word in (*_words(split_identifiers(text)), *_of_dates(text, lexical.language))
    )


def _of_dates(text: str, language: Language) -> set[str]:
    """Return the years of the dates in digits, and the names of their months."""
    names = MONTHS.get(language, MONTHS["English"]).split()
    return {
        word
        for found in DATE_IN_DIGITS.finditer(text)
        for word in (found["year"] or found["last"], names[int(found["month"] or found["dotted"]) - 1])
    }


def find_words(wanted: frozenset[str], text: str, lexical: Lexical) -> Iterator[tuple[int, int, str]]:
    """Yield the start, end and stem of each word and part of an identifier of a text whose stem is wanted, in order.

    Only words that begin with the first letter of a wanted stem are stemmed, which is quick in long texts.
    """
    initials = {word[0].casefold() for word in wanted}
    plain, places = normalized_places(text)
    for start, end, word in sorted({*_places(plain), *_identifier_places(plain)}):
        if folded(word[0].casefold())[0] in initials and (form := stem(word, lexical)) in wanted:
            yield places[start], places[end], form


def found_stems(wanted: frozenset[str], text: str, lexical: Lexical) -> frozenset[str]:
    """Return the wanted stems that a text has: those of `find_words`, without their places and much faster."""
    text = normalized(text)
    words = set(WORD.findall(text))
    if CJK_RUN.search(text):
        words = {part for word in words for part in _pairs(word)}
    for _, parts in identifiers(text):
        words.update(parts, ["".join(parts)])
    words |= _of_dates(text, lexical.language)
    return wanted.intersection(map(_known_stem(lexical), words))


def stem(word: str, lexical: Lexical) -> str:
    """Return the stem that a word shares with its other forms, such as "token" for "tokens".

    "Start" and "art" have different stems, and so have IT and "it".
    """
    if _is_name(word) and _is_stop(word, lexical):
        return word
    plain = word.casefold()
    if lexical.language == "English" or not plain.isalpha():
        plain = folded(plain)  # the other stemmers know endings with their accents only
    if lexical.language == "English" and lexical.stem:
        plain = IRREGULAR.get(plain, plain)
    return folded(lexical.stemmed(plain)) if plain.isalpha() else plain


@cache
def _known_stem(lexical: Lexical) -> Callable[[str], str]:
    """Return `stem` for these settings, with the stems of frequent words kept."""
    return lru_cache(STEMS_KEPT)(partial(stem, lexical=lexical))


def _words(text: str) -> list[str]:
    return [word for _, _, word in _places(APOSTROPHE.sub("", normalized(text)))]


def _places(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start and end of each word, and the word. Chinese and Japanese count by pairs of characters."""
    for found in WORD.finditer(text):
        first = found.start()
        for start, word in enumerate(_pairs(found[0]), first):
            yield start, start + len(word), word


def _pairs(word: str) -> list[str]:
    """Return the pairs of adjacent characters of a run of Chinese or Japanese; any other word as it is."""
    if len(word) > PAIR and CJK_RUN.match(word):
        return [word[i : i + PAIR] for i in range(len(word) - PAIR + 1)]
    return [word]


def _identifier_places(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start and end of each identifier without its underscores, and of its parts."""
    for found, parts in identifiers(text):
        yield found.start(), found.end(), "".join(parts)
        end = found.start()
        for part in parts:
            start = text.index(part, end)
            end = start + len(part)
            yield start, end, part


def in_language_of(text: str, lexical: Lexical, lead: int = 0) -> Lexical:
    """Return the settings in the language of a text: the one of which it has most function words.

    A text with few of them, or as many of the configured language, is in the configured one, and of others in one that
    has words in `ASKING`. Single letters, which some languages have as words, do not count. With a `lead`, the text
    must have so many more function words of its language than of any other: French and Romanian share many.
    """
    return replace(lexical, language=_language_of(text[:LANGUAGE_CHARS], lexical.language, lead))


@lru_cache(TEXTS_KEPT)
def _language_of(text: str, configured: Language, lead: int) -> Language:
    words = dict.fromkeys(word.casefold() for word in _words(text) if len(word) > 1)
    counts = {language: sum(_is_function_word(language, word) for word in words) for language in get_args(Language)}
    most: Language = max(counts, key=lambda language: (counts[language], language == configured, language in ASKING))
    others = max(count for language, count in counts.items() if language != most)
    return most if counts[most] >= max(FEWEST_FUNCTION_WORDS, others + lead) else configured


def _is_stop(word: str, lexical: Lexical) -> bool:
    """Return whether a word is a stop word of the language or of the index.

    Those of the language count even if the index keeps them: a question is not about "the".
    """
    word = word.casefold()
    return word in (lexical.listed or ()) or _is_function_word(lexical.language, word)


@lru_cache(FUNCTION_WORDS_KEPT)
def _is_function_word(language: Language, word: str) -> bool:
    """Return whether a word is a stop word of a language or asks. Of English, Lance knows only a few."""
    if word in ASKING.get(language, "").split():
        return True
    if language == "English":
        return word in ENGLISH_STOP_WORDS
    import lance

    return not lance.tokenize(
        word, language=language, stem=False, ascii_folding=False, max_token_length=None, remove_stop_words=True
    )


def _is_name(word: str) -> bool:
    return len(word) > 1 and word.isupper() and word not in OPERATORS
