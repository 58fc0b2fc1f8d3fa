"""Thoughts that some servers leave in the answer of a reasoning model, and their removal.

Servers are meant to put thoughts into a field of their own. Many leave them in the text: between tags, before a closing
tag whose opening tag is in the chat template, in channels of the harmony format, or in a block that never ends.
"""

from __future__ import annotations

import json
import re

from findingaid.errors import SynthesisError

NAMES = (
    r"(?:(?:ant|chain_of_|inner_|internal_|longcat_)?(?:think(?:ing)?|thoughts?|reasoning)(?:_(?:content|process))?"
    r"|reflection|scratchpad|analysis|inner_monologue|cot)"
)

TAG = re.compile(
    rf"""
      (?:<|&lt;)\s?(?P<end_xml>/\s?)?(?:\w{{1,20}}:)?{NAMES}(?:\s[^<>\n]{{0,80}})?(?:>|&gt;)  # <think>, </seed:think>
    | (?-i:\[(?P<end_square>/)?THINK(?:ING)?\])                                # [THINK] of Mistral
    | \u25c1(?P<end_kimi>/)?think\u25b7                                         # of Kimi
    | <\|(?:start|begin|(?P<end_token>end))(?:_of)?_{NAMES}\|>      # <|begin_of_thought|>, <|START_THINKING|>
    | <\|(?P<end_bar>/)?{NAMES}\|>                                  # <|think|>, <|/think|>
    | <unused(?:94|(?P<end_unused>95))>                             # of Gemma
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A tag that opens or closes thoughts."""

BLOCK = re.compile(
    rf"\s*(?:(?P<fence>```|~~~)\s?{NAMES}[ \t]{{0,9}}\n"
    r"|<details\b[^<>]{0,200}\btype=[\"']?reasoning\b[^<>]{0,200}>)",
    re.IGNORECASE,
)
"""Beginning of an answer with a block of thoughts in Markdown, or a folded one of HTML."""

BLOCK_ENDS = {
    "```": re.compile(r"\n```[ \t]{0,9}(?:\n|\Z)"),
    "~~~": re.compile(r"\n~~~[ \t]{0,9}(?:\n|\Z)"),
    None: re.compile("</details>"),
}

HEADED = re.compile(
    r"\s*[#*_ ]{0,8}(?:thoughts?|thinking|reasoning)(?: process)?(?:[*_]{0,3}:|[*_]{0,3}[ \t]{0,9}\n).*?"
    r"\n[#*_ ]{0,8}(?:final )?(?:answer|response|synopsis)(?:[*_]{0,3}:[*_]{0,3}|[*_]{0,3}[ \t]{0,9}\n)",
    re.DOTALL | re.IGNORECASE,
)
"""Thoughts below a heading of their own, up to that of the answer."""

CHANNEL = re.compile(
    r"<\|channel\|>\s{0,9}(analysis|commentary|final)(?:\s{1,9}to=[\w.]{1,80})?\s{0,9}"
    r"(?:<\|constrain\|>\s{0,9}\w{1,20}\s{0,9})?<\|message\|>"
)
"""Head of a message in the harmony format; its group is the channel."""

CHANNEL_END = re.compile(
    r"(?<![`'\"])(?:<\|(?:end|return|call)\|>\s{0,9}(?=\Z|<\|start\|>)"
    r"|<\|start\|>\s{0,9}assistant\s{0,9}(?=\Z|<\|channel\|>))"
)
"""End of a message in the harmony format, which another one or nothing follows."""

HARMONY = re.compile(
    r"\s*(?:<\|start\|>\s{0,9}assistant\b|<\|channel\|>\s{0,9}(?:analysis|commentary|final)\b"
    r"|(?:analysis|commentary)<\|message\|>|assistant<\|channel\|>)"
)
"""Beginning of an answer in the harmony format."""

BOUNDARY = re.compile(r"(?:<\|(?:end|return|call)\|>\s{0,9})?<\|start\|>\s{0,9}assistant\s{0,9}\Z")
"""What stands before the head of a message that another message precedes."""

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
    r"(?:(?:<\|(?:assistant|begin_of_text|im_start|start_header_id)\|>|\[/INST\]|<\uff5cAssistant\uff5c>)"
    r"\s{0,9}(?:assistant\s{0,9})?(?:<\|end_header_id\|>\s{0,9})?){1,3}|assistant[ \t]{0,9}\n\s{0,9}"
)
END = r"(?:<\|[\w-]{1,40}\|>|<\uff5c[\w\u2581]{1,40}\uff5c>|</s>|<end_of_turn>)"
LAST_TOKENS = re.compile(rf"(?:\s{{0,9}}{END}){{1,5}}\Z")
"""Tokens that begin and end a message, which a server has left in the text."""

NEXT_TURN = re.compile(
    rf"(?:(?<![`'\"]){END}\s{{0,9}}|\n)"
    r"(?:<\|(?:im_start|start_header_id|system|user)\|>|<start_of_turn>|<\uff5cUser\uff5c>|\[INST\])"
)
"""Beginning of another turn, which a model goes on to write if its server does not stop it."""

FENCE = re.compile(r"```\w{0,20}\s{1,9}")
"""Beginning of a block of code, which may hold the answer in JSON."""

NEAR = 100
"""Characters beside a tag that are looked at."""

MENTION_WORDS, MENTION_CHARACTERS = 2, 40
"""Most words between two tags that a sentence speaks of, as in "from <think> to </think>", and most characters."""

NEVER_END = "the answer is thoughts that never end: raise max_output_tokens"

QUOTES = "`'\"\u2018\u201c\u00ab"
SENTENCE_ENDS = ".!?:;\u2026\u3002)"


def without_thoughts(text: str) -> str:
    """Return the answer in a text, without thoughts; "" if there are only thoughts.

    A tag that the text speaks of, as in "the parser removes <think> tags", is left alone. Raises SynthesisError for
    thoughts that do not end.
    """
    text = _without_block(_final_channel(text))
    headed = HEADED.match(text)
    text = text[headed.end() if headed else 0 :]
    kept: list[str] = []
    start, inside = 0, False
    json_end = _json_end(text, start)
    tags = list(TAG.finditer(text))
    for before, tag, after in zip([None, *tags], tags, [*tags[1:], None], strict=False):
        if tag.start() < json_end:  # the texts in JSON may speak of tags
            continue
        closes = _closes(tag)
        if closes and (inside or (_ends_thoughts(text, tag) and not _are_mentioned(text, start, before, tag))):
            # Without an opening tag, which the chat template may have written, all before belongs to the thoughts.
            kept = kept if inside else []
            start, inside = tag.end(), False
            json_end = _json_end(text, start)
        elif not closes and not inside and _opens(text, tag) and not _are_mentioned(text, start, tag, after):
            kept.append(text[start : tag.start()])
            inside = True
    if inside:
        raise SynthesisError(NEVER_END, "truncated")
    return _unwrapped("".join([*kept, text[start:]]).strip())


def _without_block(text: str) -> str:
    """Return an answer without the block of thoughts that it begins with. Raises SynthesisError if that never ends."""
    block = BLOCK.match(text)
    if not block:
        return text
    end = BLOCK_ENDS[block["fence"]].search(text, block.end() - 1)
    if not end:
        raise SynthesisError(NEVER_END, "truncated")
    return text[end.end() :]


def _json_end(text: str, start: int) -> int:
    """Return the end of the object or list in JSON that an answer begins with; `start` if it begins with none."""
    at = start + len(text[start:]) - len(text[start:].lstrip())
    fence = FENCE.match(text, at)
    at = fence.end() if fence else at
    if text[at : at + 1] not in {"{", "["}:
        return start
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return start


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
    harmony = HARMONY.match(text)
    heads = [head for head in CHANNEL.finditer(text) if _begins_message(text, head, bool(harmony))]
    if not heads:
        if harmony:
            return ""
        return HARMONY_WITHOUT_TOKENS.sub("", text, count=1) if HARMONY_WITHOUT_TOKENS.match(text) else text
    final = [place for place, head in enumerate(heads) if head[1] == "final"]
    if not final:
        return ""
    start, after = heads[final[-1]].end(), heads[final[-1] + 1 :]
    return CHANNEL_END.split(text[start : after[0].start() if after else None], maxsplit=1)[0]


def _begins_message(text: str, head: re.Match[str], harmony: bool) -> bool:
    """Return whether a head begins a message, and is not one that a text speaks of; see `HARMONY`."""
    before = text[max(0, head.start() - NEAR) : head.start()]
    if found := BOUNDARY.search(before):
        return before[: found.start()][-1:] not in {*QUOTES}
    return harmony and (before.rstrip()[-2:] in {"", "|>"} or before[-1:] not in {*QUOTES, " "})


def _unwrapped(text: str) -> str:
    first = FIRST_TOKENS.match(text)
    text = text[first.end() if first else 0 :]
    turn = NEXT_TURN.search(text, _json_end(text, 0))
    text = LAST_TOKENS.sub("", text[: turn.start()] if turn else text).strip()
    found = WRAPPER.fullmatch(text)
    return (found["xml"] or found["token"] or "").strip() if found else text
