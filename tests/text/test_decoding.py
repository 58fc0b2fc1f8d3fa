"""Encodings: by mark, by declaration, by guess, and damaged."""

from __future__ import annotations

import codecs
import random

import pytest

from findingaid.errors import ReadError
from findingaid.text.decoding import decode

GERMAN = "Größe, Maß und Übermut: „Spaß“ für alle – schön.\n"  # noqa: RUF001  # a dash is meant
RUSSIAN = "Это длинное предложение на русском языке, по буквам которого видна кодировка.\n" * 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_byte_order_mark_decides(encoding: str) -> None:
    assert decode(("\ufeff" + GERMAN).encode(encoding)) == (GERMAN, encoding[:6].rstrip("-"), ())


@pytest.mark.parametrize(
    "payload",
    [
        codecs.BOM_UTF16_LE + "a\0b".encode("utf-16-le"),
        "no mark".encode("utf-16-le"),
        codecs.BOM_UTF16_LE + random.Random(1).randbytes(4000),
        b"text\0text",
        rb"{\rtf1\ansi The herons \b left.}",
    ],
)
def test_a_text_with_nulls_of_random_bytes_or_of_commands_is_none(payload: bytes) -> None:
    with pytest.raises(ReadError, match="not text"):
        decode(payload)


@pytest.mark.parametrize(
    ("payload", "text", "damaged"),
    [
        (GERMAN.encode().replace("ö".encode(), b"\xff", 1), GERMAN.replace("ö", "\ufffd", 1), 1),
        (GERMAN.encode() + "ä".encode()[:1], GERMAN + "\ufffd", 1),
        (b"only ASCII and \xe2\x80", "only ASCII and \ufffd", 1),
        (GERMAN.encode() + b"\xff \xfe", GERMAN + "\ufffd \ufffd", 2),
        (("\ufeff" + GERMAN).encode("utf-16-le")[:-1], GERMAN[:-1] + "\ufffd", 1),
        (GERMAN.encode() + "\ufffd".encode() + b"\xff", GERMAN + "\ufffd\ufffd", 1),
    ],
)
def test_a_damaged_text_keeps_its_encoding_and_says_in_how_many_places(payload: bytes, text: str, damaged: int) -> None:
    decoded = decode(payload)

    assert decoded.text == text
    assert [(note.kind, note.count) for note in decoded.notes] == [("damaged_bytes", damaged)]


@pytest.mark.parametrize(
    "sign",
    ["at 7½ d. apiece", "1 ¼ cups", "48 m² and 12 m³", "el 1º y la 2ª", "8 ‰ † ‡", "5 µm ¬ ¦ ¶", "‹so›"],  # noqa: RUF001  # these signs are meant
)
def test_a_western_text_may_have_signs_of_numbers(sign: str) -> None:
    text = f"My café loses its crockery twice daily.\nThe brothers Böhm ask that she be slowed, {sign}.\n"

    assert decode(text.encode("cp1252"))[:2] == (text, "cp1252")


def test_letters_of_slovak_are_no_fractions() -> None:
    text = "Ľudia majú veľa práce, a ľahko to nebude.\n"

    assert decode(text.encode("cp1250"))[:2] == (text, "cp1250")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Привет мир, это заметка склада", "cp1251"),
        ("日本語テキストは在庫です", "cp932"),
        ("Καλημέρα κόσμε, αυτό είναι", "cp1253"),
        ("這是測試文件內容", "big5"),
        ("Größe für Köln, été à la côte", "cp1252"),
    ],
)
@pytest.mark.parametrize("lines", [1, 20, 1000])
def test_a_few_words_within_much_ascii_are_read_as_they_are_alone(text: str, encoding: str, lines: int) -> None:
    code = "total = compute(price, count)\n" * lines + f"// {text}\n"

    assert decode(code.encode(encoding))[:2] == (code, encoding)


@pytest.mark.parametrize(
    ("text", "encoding"), [(GERMAN, "cp1252"), ("„Spaß“", "cp1252"), ("café", "cp1252"), (RUSSIAN, "koi8-r")]
)
def test_a_guess_is_noted(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))

    assert (decoded.text, decoded.encoding) == (text, encoding)
    assert [str(note) for note in decoded.notes] == [f"encoding: {encoding} (guessed)"]


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("#!/usr/bin/python\n# -*- coding: {} -*-\n", "koi8-r"),
        ("/* vim: set fileencoding={} : */\n", "cp1251"),
        ('<?xml version="1.0" encoding="{}"?>\n', "iso8859-5"),
        ("<html><meta charset={}>", "koi8-r"),
        ('@charset "{}";\n', "cp866"),
        ('<?xml version="1.0" encoding="{}"?>\n', "iso2022-jp"),
    ],
)
def test_a_declared_encoding_is_read_and_no_guess(head: str, encoding: str) -> None:
    text = head.format(encoding) + ("日本語" if encoding == "iso2022-jp" else "Привет")

    assert decode(text.encode(encoding)) == (text, encoding, ())


def test_a_wrong_declaration_gives_way_to_utf_8_and_a_senseless_one_to_a_guess() -> None:
    wrong, senseless = "# coding: latin-1\n" + GERMAN, "# coding: unicode_escape\n" + GERMAN

    assert decode(wrong.encode()) == (wrong, "utf-8", ())
    assert decode(senseless.encode("cp1252")).text == senseless
