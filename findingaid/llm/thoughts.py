"""Thoughts that some servers leave in the answer of a reasoning model, and their removal.

Servers are meant to put thoughts into a field of their own. Many leave them in the text: between tags, before a closing
tag whose opening tag is in the chat template, in channels of the harmony format, or in a block that never ends.
"""

from __future__ import annotations

import re

from findingaid.errors import SynthesisError

NAMES = (
    r"(?:(?:ant|chain_of_|inner_|internal_|longcat_)?(?:think(?:ing)?|thoughts?|reasoning)(?:_(?:content|process))?"
    r"|reflection|scratchpad|analysis|inner_monologue|cot)"
)

TAG = re.compile(
    rf"""
      <(?P<end_xml>/)?(?:\w{{1,20}}:)?{NAMES}(?:\s[^<>\n]{{0,80}})?>               # <think>, </thinking>, <seed:think>
    | (?-i:\[(?P<end_square>/)?THINK(?:ING)?\])                                # [THINK] of Mistral
    | \u25c1(?P<end_kimi>/)?think\u25b7                                         # of Kimi
    | <\|(?:start|begin|(?P<end_token>end))(?:_of)?_{NAMES}\|>      # <|begin_of_thought|>, <|START_THINKING|>
    | <\|(?P<end_bar>/)?{NAMES}\|>                                  # <|think|>, <|/think|>
    | <unused(?:94|(?P<end_unused>95))>                             # of Gemma
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A tag that opens or closes thoughts."""

CHANNEL = re.compile(
    r"<\|channel\|>\s{0,9}(analysis|commentary|final)(?:\s{1,9}to=[\w.]{1,80})?\s{0,9}"
    r"(?:<\|constrain\|>\s{0,9}\w{1,20}\s{0,9})?<\|message\|>"
)
"""Head of a message in the harmony format; its group is the channel."""

CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")

HARMONY = re.compile(r"\s*(?:<\|(?:start|channel)\|>|(?:analysis|commentary)<\|message\|>)")
"""Beginning of an answer in the harmony format."""

HARMONY_WITHOUT_TOKENS = re.compile(r"\s*analysis(?=[A-Z]).*?(?:assistantfinal|\Z)", re.DOTALL)
"""Thoughts in the harmony format whose special tokens the server has removed, and the head of the answer after them."""

WRAPPER = re.compile(
    r"(?:<(answer|response|final|final_answer|output|solution)>(?P<xml>.*)</\1>"
    r"|<\|(?:start|begin)(?:_of)?_(?:solution|response|text)\|>(?P<token>.*?)"
    r"(?:<\|end(?:_of)?_(?:solution|response|text)\|>)?)",
    re.DOTALL | re.IGNORECASE,
)
"""Tags around the whole answer that follows the thoughts."""

FIRST_TOKENS = re.compile(
    r"(?:<\|(?:assistant|begin_of_text|im_start|start_header_id)\|>\s{0,9}(?:assistant\s{0,9})?"
    r"(?:<\|end_header_id\|>\s{0,9})?){1,3}|assistant[ \t]{0,9}\n\s{0,9}"
)
LAST_TOKENS = re.compile(r"(?:\s{0,9}(?:<\|[\w-]{1,40}\|>|</s>|<end_of_turn>)){1,5}\Z")
"""Tokens that begin and end a message, which a server has left in the text."""

JSON = ("{", "```")
"""Beginnings of JSON, whose texts may speak of such tags."""

NEAR = 100
"""Characters beside a tag that are looked at."""

MENTION_WORDS, MENTION_CHARACTERS = 2, 40
"""Most words between two tags that a sentence speaks of, as in "from <think> to </think>", and most characters."""

QUOTES = "`'\"\u2018\u201c\u00ab"
SENTENCE_ENDS = ".!?:;\u2026\u3002)"


def without_thoughts(text: str) -> str:
    """Return the answer in a text, without thoughts; "" if there are only thoughts.

    A tag that the text speaks of, as in "the parser removes <think> tags", is left alone. Raises SynthesisError for
    thoughts that do not end.
    """
    text = _final_channel(text)
    kept: list[str] = []
    start, inside = 0, False
    tags = list(TAG.finditer(text))
    for before, tag, after in zip([None, *tags], tags, [*tags[1:], None], strict=False):
        if not inside and text[start : start + NEAR].lstrip().startswith(JSON):
            break
        closes = _closes(tag)
        if closes and (inside or (_ends_thoughts(text, tag) and not _are_mentioned(text, start, before, tag))):
            # Without an opening tag, which the chat template may have written, all before belongs to the thoughts.
            kept = kept if inside else []
            start, inside = tag.end(), False
        elif not closes and not inside and _opens(text, tag) and not _are_mentioned(text, start, tag, after):
            kept.append(text[start : tag.start()])
            inside = True
    if inside:
        raise SynthesisError("the answer is thoughts that never end: raise max_output_tokens", "truncated")
    return _unwrapped("".join([*kept, text[start:]]).strip())


def _closes(tag: re.Match[str]) -> bool:
    return any(tag.groupdict().values())


def _are_mentioned(text: str, start: int, opening: re.Match[str] | None, closing: re.Match[str] | None) -> bool:
    """Return whether a sentence speaks of two tags, as in "drops <think>...</think>"; the answer begins at `start`."""
    if not opening or not closing or _closes(opening) or not _closes(closing):
        return False
    between = text[opening.end() : closing.start()]
    if "\n" in between or len(between) > MENTION_CHARACTERS:
        return False
    first = not text[max(start, opening.start() - NEAR) : opening.start()].strip()
    if first or _beside(text, opening)[0] == "\n":  # thoughts begin here, unless there are only dots
        return bool(between.strip()) and not any(map(str.isalnum, between))
    return len(between.split()) <= MENTION_WORDS


def _opens(text: str, tag: re.Match[str]) -> bool:
    """Return whether an opening tag begins thoughts: at the beginning of a line, or if it stands before their text."""
    before, after = _beside(text, tag)
    if before in {"", "\n"}:
        return True
    joined = text[tag.start() - 1].isalnum()  # as in List<Thought>
    return not joined and before not in QUOTES and (after.isalnum() or after == "\n")


def _ends_thoughts(text: str, tag: re.Match[str]) -> bool:
    """Return whether a closing tag ends thoughts that nothing opened: it does not stand within a sentence."""
    before, after = _beside(text, tag)
    if (before and before in QUOTES) or (before in {":", ";", ","} and after == " "):
        return False
    return before in f"\n{SENTENCE_ENDS}" or after.isalnum() or after in "\n\r{[`*"


def _beside(text: str, tag: re.Match[str]) -> tuple[str, str]:
    """Return the character before a tag, not counting blanks, and the one after it; "" if there is none."""
    before = text[max(0, tag.start() - NEAR) : tag.start()].rstrip(" \t")
    return before[-1:], text[tag.end() : tag.end() + 1]


def _final_channel(text: str) -> str:
    """Return the last message of the channel "final" of an answer in the harmony format, or the text if it has none."""
    heads = list(CHANNEL.finditer(text))
    if not heads:
        if HARMONY.match(text):
            return ""
        return HARMONY_WITHOUT_TOKENS.sub("", text, count=1) if HARMONY_WITHOUT_TOKENS.match(text) else text
    final = [head.end() for head in heads if head[1] == "final"]
    if not final:
        return ""
    return CHANNEL_END.split(text[final[-1] :], maxsplit=1)[0]


def _unwrapped(text: str) -> str:
    first = FIRST_TOKENS.match(text)
    text = LAST_TOKENS.sub("", text[first.end() if first else 0 :])
    found = WRAPPER.fullmatch(text)
    return (found["xml"] or found["token"] or "").strip() if found else text
