r"""Characters that a format of text may write by other signs, such as \u00e9, &#233; and {\'e}, read as themselves.

Without this, nobody finds a word that has such a character. What a format has to escape stays as it is, so that values
and lines stay the same.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from unicodedata import category, normalize

import yaml

NEEDED = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that stay escaped: controls, halves of a pair, and ends of lines."""

JSON_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|[^u])")
"""Escape in JSON and in properties of Java; two for a character of two code units."""

YAML_ESCAPE = re.compile(
    r"\\(?:[xuU](?P<code>(?<=x)[\da-fA-F]{2}|(?<=u)[\da-fA-F]{4}|(?<=U)[\da-fA-F]{8})|[^xuU])", re.DOTALL
)
"""Escape in a scalar of YAML in double quotes."""

OPENING = (yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken)
CLOSING = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
DEEPEST = 100

REFERENCE = re.compile(r"&(?:amp;)?(?:#(?:\d{1,7}|[xX][\da-fA-F]{1,6})|[A-Za-z][A-Za-z0-9]{1,31});")
"""Reference to a character; behind an escaped & where HTML is within XML, as in feeds."""

LATEX_ACCENTS = dict(
    zip("\"'`^~=.uvHckr", "\u0308\u0301\u0300\u0302\u0303\u0304\u0307\u0306\u030c\u030b\u0327\u0328\u030a", strict=True)
)
"""Command of LaTeX -> combining character. A command of a letter has a blank or a brace before its letter."""

LATEX_LETTERS = {"AA": "Å", "AE": "Æ", "L": "Ł", "O": "Ø", "OE": "Œ"}
LATEX_LETTERS |= {name.lower(): letter.lower() for name, letter in LATEX_LETTERS.items()} | {"ss": "ß"}

LATEX = re.compile(
    r"""
    \\\\ | \\\$
    | \$[^$]*+\$ | \\\((?>(?:[^\\]|\\[^()])*)\\\) | \\\[(?>(?:[^\\]|\\[^\[\]])*)\\\]
    | \\begin\{(?P<math>(?:align|displaymath|eqnarray|equation|gather|math|multline)\*?)\}
      (?>(?:[^\\]|\\(?!(?:begin|end)\{(?P=math)\}).)*)\\end
    | (?P<open>\{)?\\(?:
        (?:(?P<sign>["'`^~=.])|(?P<command>[uvHckr])(?:[ \t]+|(?=\{)))
        (?:\{[ \t]*\\?(?P<braced>[A-Za-z])[ \t]*\}|\\?(?P<bare>[A-Za-z])(?:(?<=\\[ij])(?![A-Za-z])(?:\{\}|[ \t]+)?)?)
      | (?P<letter>AA|AE|L|OE?|aa|ae|l|oe?|ss)(?![A-Za-z])(?:\{\}|[ \t]+)?
    )(?(open)\})
    """,
    re.VERBOSE | re.DOTALL,
)
"""Letter with an accent, or one of another language, as {\\"u}, \\"{u}, \\c c and {\\ss}; mathematics stays."""


def without_escapes(text: str, media_type: str) -> str:
    """Return a text with the characters that its format lets one write by other signs.

    One that its format has to escape stays, and so does all of a format that has no such signs.
    """
    signs, read = READERS.get(media_type, ((), str))
    return read(text) if any(sign in text for sign in signs) else text


def _of_json(text: str) -> str:
    return JSON_ESCAPE.sub(lambda found: _of_json_escape(found[0]), text)


@lru_cache(4096)
def _of_json_escape(escape: str) -> str:
    try:
        character = json.loads(f'"{escape}"')
    except ValueError:
        return escape
    return escape if character in '"\\' or category(character) in NEEDED else character


def _of_yaml(text: str) -> str:
    """Read the scalars in double quotes. YAML stays as it is if it is not valid, or nested too deep."""
    made: list[str] = []
    end = depth = 0
    try:
        for token in yaml.scan(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
            if depth > DEEPEST:  # each level makes every token slower
                return text
            if isinstance(token, yaml.ScalarToken) and token.style == '"':
                start, stop = token.start_mark.index, token.end_mark.index
                made += text[end:start], YAML_ESCAPE.sub(_of_yaml_escape, text[start:stop])
                end = stop
    except yaml.YAMLError:
        return text
    return "".join((*made, text[end:]))


def _of_yaml_escape(found: re.Match[str]) -> str:
    if not found["code"]:
        return found[0]
    try:
        character = chr(int(found["code"], base=16))
    except ValueError:  # above the highest of Unicode
        return found[0]
    return found[0] if character in '"\\' or category(character) in NEEDED else character


def _of_markup(text: str) -> str:
    return REFERENCE.sub(lambda found: _of_reference(found[0]), text)


@lru_cache(4096)
def _of_reference(reference: str) -> str:
    read = html.unescape(html.unescape(reference))
    kept = read[0] in '&<>"' or read[-1] == ";" or any(category(character) in NEEDED for character in read)
    return reference if kept else read


def _of_latex(text: str) -> str:
    return LATEX.sub(_of_latex_command, text)


def _of_latex_command(found: re.Match[str]) -> str:
    if found["letter"]:
        return LATEX_LETTERS[found["letter"]]
    if accent := LATEX_ACCENTS.get(found["sign"] or found["command"] or ""):
        letter = normalize("NFC", (found["braced"] or found["bare"]) + accent)
        return letter if len(letter) == 1 else found[0]
    return found[0]


READERS: Mapping[str, tuple[Sequence[str], Callable[[str], str]]] = {
    **dict.fromkeys(("application/geo+json", "application/json", "application/jsonl"), ((r"\u",), _of_json)),
    "text/x-java-properties": ((r"\u",), _of_json),
    "application/yaml": ((r"\x", r"\u", r"\U"), _of_yaml),
    **dict.fromkeys(
        ("image/svg+xml", "text/x-asciidoc", "text/x-textile", "text/x-wiki", "text/xml"), (("&",), _of_markup)
    ),
    **dict.fromkeys(("application/x-bibtex", "application/x-tex"), (("\\",), _of_latex)),
}
"""Media type -> the beginnings of its escapes, of which a text without escapes has none, and their reader."""
