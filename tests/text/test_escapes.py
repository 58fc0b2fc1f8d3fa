"""Characters that a format writes by other signs are read as themselves; what it has to escape stays."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from findingaid.sources.media_types import media_type_of
from findingaid.text.escapes import READERS, without_escapes

VALUES = st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))

DEEP = "[" * 200_000 + r'"\xfc"'


@pytest.mark.parametrize(
    ("suffix", "escaped", "read"),
    [
        (".json", r'["Caf\u00e9 don\u0027t \u003cb\u003e"]', """["Café don't <b>"]"""),
        (".ndjson", r'["\ud83d\ude00 a\u00a0b"]', '["\U0001f600 a\xa0b"]'),
        (".json", r'["\u0022 \u005c \u0000 \u000a \u2028"]', None),
        (".geojson", r'["\ud83d \ude00\ud83d"]', None),
        (".jsonc", r'["\\u00e9 \u00zz"]', None),
        (".properties", "a = Caf\\u00e9\nb = C:\\\\u00e9", "a = Café\nb = C:\\\\u00e9"),
        (".yaml", r'a: "Caf\xe9 \u20ac \U0001F600 \x41"', 'a: "Café € \U0001f600 A"'),
        (".yml", '"\\xe9": 1\r\n---\r\nb: ["ü", "\\xfc"]\r\n', '"é": 1\r\n---\r\nb: ["ü", "ü"]\r\n'),
        (".yaml", 'a: C:\\xe9\nb: \'\\xe9\'\nc: |\n  "\\xe9"\n# "\\xe9"\n', None),
        (".yaml", r'a: "\x22 \x5c \x0a \\xe9 \U0011FFFF"', None),
        (".yaml", '{{ no }} yaml: "\\xe9', None),
        (".yaml", DEEP, None),
        (".xml", "<a b='&#252;'>&#xFC; don&#39;t</a>", "<a b='ü'>ü don't</a>"),
        (".rss", "&lt;p&gt;Schl&amp;uuml;ssel&lt;/p&gt;", "&lt;p&gt;Schlüssel&lt;/p&gt;"),
        (".svg", "&amp; &lt; &#38; &#60; &amp;lt; &amp;amp; &quot; &#10; &own; &notit;", None),
        (".adoc", "don&#8217;t", "don’t"),  # noqa: RUF001  # the quote is meant
        (".wiki", "caf&eacute;", "café"),
        (".tex", r"Schl\"ussel {\"u} \"{u} {\"{u}} caf\'e \^\i le \'{\i}", "Schlüssel ü ü ü café île í"),
        (".tex", r"\c c \c{c} {\v{s}} \H{o} Stra{\ss}e \oe uvre \AA{}b", "ç ç š ő Straße œuvre Åb"),
        (".tex", r'\$5 $\v{r}$ \[\v{r} \\[2pt] \v{r}\] \(\v{r}\) \omega \left( a\\"o \= a', None),
        (".tex", "\\begin{align*}\n\\v{r} \\\\\n\\end{align*}\\v{r}", "\\begin{align*}\n\\v{r} \\\\\n\\end{align*}ř"),
        (".bib", r"author = {M{\"u}ller and \L{}ukasz}", "author = {Müller and Łukasz}"),
        (".txt", r"\u00e9 &eacute; {\"u}", None),
        (".py", r'"\u00e9 &eacute;"', None),
    ],
)
def test_what_is_escaped_without_need_is_read(suffix: str, escaped: str, read: str | None) -> None:
    assert without_escapes(escaped, media_type_of(f"a{suffix}")) == (escaped if read is None else read)


@given(VALUES)
def test_json_without_escapes_has_the_same_values_and_lines(value: object) -> None:
    escaped = json.dumps(value, indent=1)
    read = without_escapes(escaped, "application/json")

    assert json.loads(read) == value
    assert len(read.splitlines()) == len(escaped.splitlines())


@given(VALUES)
def test_yaml_without_escapes_has_the_same_values_and_lines(value: object) -> None:
    escaped = yaml.safe_dump(value)
    read = without_escapes(escaped, "application/yaml")

    assert yaml.safe_load(read) == yaml.safe_load(escaped)
    assert len(read.splitlines()) == len(escaped.splitlines())


@pytest.mark.parametrize(
    "unit", ['{\\"', "{", "[", "\\[", "\\(", "\\begin{math}", "\\c ", "\\c{", "&amp;", "&#", '"', "\\u", '"\\x']
)
def test_texts_of_any_shape_are_read_soon(unit: str) -> None:
    text = (unit * 50_000)[:200_000]

    for media_type in READERS:
        assert without_escapes(text + "&\\u", media_type)
