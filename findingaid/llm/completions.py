"""Parsing of completions from an OpenAI-compatible endpoint, and the schemas that constrain them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from findingaid.errors import SynthesisError
from findingaid.llm.api_errors import first_choice, interpret_status, mask_secrets, reported_error, server_words
from findingaid.llm.prompts import estimate_tokens, to_one_line
from findingaid.llm.thoughts import without_thoughts
from findingaid.model import CallResult, Usage

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

TEXT: Mapping[str, Any] = {"type": "string"}

ModelText = Annotated[str, AfterValidator(without_thoughts)]
"""Text within the JSON that a model writes, without thoughts."""

WHOLE = frozenset({"complete", "done", "end", "end_turn", "eos", "eos_token", "stop", "stop_sequence", "stop_string"})
"""Finish reasons of whole answers, in lower case: those of OpenAI, and of servers that have words of their own."""

CUT = frozenset({"length", "max_length", "max_output_tokens", "max_tokens", "model_length"})
WITHHELD = frozenset(
    {"blocklist", "content_filter", "prohibited_content", "recitation", "refusal", "safety", "sensitive", "spii"}
)
UNFINISHED = frozenset({"cancelled", "failed", "in_progress", "incomplete", "queued"})
"""Statuses of the Responses API for an answer that is not whole, which gateways pass on."""

OTHER_REASONS = ("done_reason", "finish_details", "native_finish_reason")
"""Fields beside the finish reason in which servers and gateways give the reason of the model's provider."""

BROKEN = UNFINISHED | {"error", "malformed_function_call", "malformed_response", "unexpected_tool_call"}
"""Reasons in such a field for an answer that was broken off. Words that are not known there are no failure."""

FILTERS = frozenset({"content_filter_result", "content_filter_results", "prompt_filter_results"})
"""Fields with the findings of content filters, such as Azure's; `filtered` in them says that words were withheld."""

REFUSED = "the model or a filter refused to write about this text"
CALLS = "the model called a tool instead of an answer"

CALLED = frozenset({"function_call", "tool_call", "tool_calls", "tool_use"})

PART_OF_TEXT = frozenset({"output_text", "text"})
PART_OF_THOUGHTS = frozenset({"reasoning", "reasoning_content", "redacted_thinking", "thinking"})

THOUGHTS_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
"""Fields of a message in which servers return thoughts."""

REFUSAL = re.compile(
    r"(?:(?:i'?m|i am|we are|we're)\s(?:so |very |really )?sorry|sorry|i apologi[sz]e|my apologies)\b[^.!?]{0,60}?"
    r"\b(?:i|we)(?:\s(?:can't|cannot|can not|won't|will not|am unable|am not able|are unable)|'m (?:unable|not able))\b"
    r"|(?:unfortunately,? |as an? (?:ai|(?:large )?language model)\b[^.!?]{0,40}?)?"
    r"i(?: (?:can't|cannot|can not|won't|will not|am unable to|am not able to)|'m (?:unable|not able) to)"
    r" (?:access|assist|comply|fulfil|help|open|process|provide|summari[sz]e)\b",
    re.IGNORECASE,
)
"""Beginning of an answer in which a model refuses."""

NOTHING = re.compile(r"\W{0,9}nothing(?: to say)?\W{0,9}", re.IGNORECASE)
"""Answer of a model that has nothing to say, where it was not asked for JSON."""

NO_TEXT = re.compile(
    r"\W{0,3}(?:n/?a|nan|null|none|undefined|string|todo|tbd"
    r"|(?:insert |the |your ){0,2}(?:synopsis|summary|text)(?: goes)?(?: here)?)\W{0,3}",
    re.IGNORECASE,
)
"""Answer that stands in for a text, such as a value of JSON or the name of the field."""

KINDS_OF_TEXT = r"(?:article|content|document|excerpt|passage|text|transcript)s?"

ASKS = re.compile(
    r"(?:(?:i am|i'm|i'd be) (?:ready|happy) to (?:assist|help|summari[sz]e)\b[^.!?]{0,60}[.!?]\s)?"
    r"(?:please|(?:can|could|would) you(?: please)?) (?:paste|provide|send|share|upload)\b[^.!?]{0,30}?"
    rf"\b{KINDS_OF_TEXT}(?: (?:for|here|so|that|to|you|you'd|you want)\b|\W{{0,2}}\Z)"
    r"|(?:unfortunately,? )?(?:it (?:seems|looks|appears)(?: like| that| as if)? )?"
    r"(?:there(?: is|'s| was)? no|no|i (?:don't|do not|can't|cannot) see (?:an?y?|the)"
    r"|you (?:haven't|have not|didn't|did not) (?:attach|includ|paste?|provid|shar)(?:ed?)?(?: me)?(?: with)?"
    r"(?: an?y?| the)?)"
    rf" {KINDS_OF_TEXT}(?:(?: (?:was|were|is|are|has been|have been))?"
    r" (?:attached|given|here|included|in your message|provided|shared|to summari[sz]e|yet)){0,2}[.!?,:]",
    re.IGNORECASE,
)
"""Beginning of an answer in which a model asks for the text or misses it, as if the server had not passed it on."""

MACHINE = re.compile(
    r"""
      <\|?tool_call(?:_begin|s_section_begin)?\|?> | <\|python_tag\|> | \[TOOL_CALLS\] | <function=
    | <\uff5ctool\u2581calls\u2581begin\uff5c>
    | \{\s?"name"\s?:\s?"[\w.-]{1,64}",\s?"(?:arguments|parameters)"\s?:
    | <(?:!doctype\ html|html)\b.*>\Z
    | \{\s?"(?:error|detail)"\s?: | <document-[0-9a-f]{8}
    | (?:[\w.]{0,60}(?:error|exception)|litellm\.\w{1,60}):\s
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
"""Answer that is no text: a call of a tool in the words of any model, a web page, an error, or the prompt again."""

OBJECT = re.compile(r"\{(?=[ \t\r\n]{0,99}[\"'}]|\s{100})")
"""Beginning of an object in JSON."""

PLACE_CHARACTERS = 60
"""Maximum length of the place that an error message names: a key in an answer may be of any length."""


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties, all required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def array_schema(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def response_format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `response_format` that constrains an answer to a schema."""
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")
    content: Any = None
    refusal: str | None = None

    @property
    def thought(self) -> bool:
        """Whether the server returned thoughts in a field of their own."""
        return self._has(THOUGHTS_FIELDS)

    @property
    def call(self) -> bool:
        """Whether the model called a tool, whatever the finish reason says; no request offers one."""
        return self._has(CALLED)

    def _has(self, names: Iterable[str]) -> bool:
        return any((self.model_extra or {}).get(name) for name in names)


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    stop_reason: Any = None
    """Reason of servers that give no finish reason; beside one it may be anything, such as the text that ended it."""

    @property
    def reason(self) -> str:
        return self.finish_reason or (self.stop_reason if isinstance(self.stop_reason, str) else "")


class _Tokens(BaseModel):
    prompt_tokens: int = Field(0, ge=0)
    completion_tokens: int = Field(0, ge=0)


def parse_completion(completion: Any, parse: Callable[[str], T], secrets: Iterable[str] = ()) -> CallResult[T]:
    """Return the text of a completion as `parse` converts it, with its usage. It never raises a SynthesisError.

    No error shows these secrets.
    """
    result = CallResult(completion, completion_usage(completion)).map(lambda answer: parse(answer_text(answer)))
    if result.error is None:
        return result
    return replace(result, error=SynthesisError(mask_secrets(str(result.error), secrets), result.error.kind))


def answer_text(completion: Any) -> str:
    """Return the text of a completion, without thoughts.

    Raises SynthesisError unless the text is whole: an error instead, refused, cut off, without any words.
    """
    if status := reported_error(completion):
        error = interpret_status(status, completion, {})
        raise SynthesisError(error.message, error.kind)
    first = first_choice(completion)
    try:
        choice = _Choice.model_validate(first)
    except ValidationError:
        said = server_words(completion)
        raise SynthesisError(
            f"the answer is not a chat completion with a choice{said and f': {said}'}", "parse"
        ) from None
    _require_whole(choice)
    _require_finished(completion, first)
    content = _content_text(choice.message.content)
    if content is None:
        raise SynthesisError("the answer has no content", "parse")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise SynthesisError("the answer has half of a surrogate pair, which is not valid Unicode", "parse") from None
    text = without_thoughts(content)
    if not to_one_line(text):
        thought = choice.message.thought or bool(content.strip())
        raise SynthesisError(
            f"the answer is {'thoughts alone: raise max_output_tokens' if thought else 'empty'}", "parse"
        )
    return text


def _require_whole(choice: _Choice) -> None:
    """Raise SynthesisError if the model refused, or did not end its answer. A server may give no reason at all."""
    if choice.message.refusal:
        raise SynthesisError(REFUSED, "refused")
    _refuse_reason(choice.reason)
    if choice.message.call:
        raise SynthesisError(CALLS, "parse")
    if choice.reason and _plain_reason(choice.reason) not in WHOLE:
        raise SynthesisError(f"the answer was broken off: finish_reason is {_named(choice.reason)}", "transport")


def _refuse_reason(reason: str) -> None:
    """Raise SynthesisError for the reason of an answer that was withheld or cut off, or of a call."""
    plain = _plain_reason(reason)
    if plain in WITHHELD:
        raise SynthesisError(REFUSED, "refused")
    if plain in CUT:
        raise SynthesisError("the answer ends at the token limit: raise max_output_tokens", "truncated")
    if plain in CALLED:
        raise SynthesisError(CALLS, "parse")


def _plain_reason(reason: str) -> str:
    return reason.strip().lower().replace("-", "_").removeprefix("finish_reason_")


def _require_finished(completion: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
    """Raise SynthesisError if fields beside the finish reason say that the answer was withheld or is not whole."""
    levels = [level for level in (completion, choice, choice["message"]) if isinstance(level, Mapping)]
    if any(_is_filtered(level.get(name)) for level in levels for name in FILTERS):
        raise SynthesisError("a filter kept words of this answer back: content_filter_results", "refused")
    for level in levels:
        for name in OTHER_REASONS:
            reason = _reason_in(level.get(name))
            _refuse_reason(reason)
            if _plain_reason(reason) in BROKEN:
                raise SynthesisError(f"the answer was broken off: {name} is {_named(reason)}", "transport")
        if level.get("truncated") is True:
            raise SynthesisError("the text or the answer was cut off: the server says truncated", "truncated")
        details = level.get("incomplete_details")
        if details or level.get("done") is False or str(level.get("status")).lower() in UNFINISHED:
            reason = _reason_in(details) or str(level.get("status") or "not done")
            _refuse_reason(reason)
            raise SynthesisError(f"the answer was broken off: {_named(reason)}", "transport")


def _reason_in(found: Any) -> str:
    """Return the reason in a field that has it as a text, or as an object with `reason` or `type`; "" without any."""
    if isinstance(found, Mapping):
        found = found.get("reason") or found.get("type")
    return found if isinstance(found, str) else ""


def _is_filtered(found: Any) -> bool:
    if isinstance(found, Mapping):
        return found.get("filtered") is True or any(map(_is_filtered, found.values()))
    return isinstance(found, list) and any(map(_is_filtered, found))


def _content_text(content: Any) -> str | None:
    """Return the content of a message, which may be in parts; None without any. Raises SynthesisError."""
    if content is None or isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "".join(map(_part_text, parts)) if parts else None


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = str(part.get("type", "text")) if isinstance(part, Mapping) else type(part).__name__
    if kind in PART_OF_THOUGHTS:
        return ""
    if kind == "refusal":
        raise SynthesisError(REFUSED, "refused")
    text = part.get("text") if isinstance(part, Mapping) else None
    if isinstance(text, Mapping):
        text = text.get("value")
    if kind not in PART_OF_TEXT or not isinstance(text, str):
        raise SynthesisError(f"the answer has a part that is not text, but {_named(kind)}", "parse")
    return text


def _named(said: str) -> str:
    return to_one_line(said)[:PLACE_CHARACTERS]


def short_text(said: str, tokens: int, what: str) -> str:
    """Return a text that a model wrote, on one line; "" if it is the one word NOTHING.

    Raises SynthesisError for a text of more than `tokens` tokens, a refusal, and one without words. `what` names the
    text in messages.
    """
    text = to_one_line(without_thoughts(said))
    if NOTHING.fullmatch(text):
        return ""
    if REFUSAL.match(text.replace("\u2019", "'")):
        raise SynthesisError("the model refused to write about this text", "refused")
    if not any(map(str.isalnum, text)):
        raise SynthesisError("the answer has no words", "parse")
    if ASKS.match(text.replace("\u2019", "'")):
        raise SynthesisError("the model asks for the text: does the server cut long prompts off?", "parse")
    if MACHINE.match(text) or NO_TEXT.fullmatch(text):
        raise SynthesisError(f"the answer is not a text, but {_named(text)}", "parse")
    if estimate_tokens(text) > tokens:
        raise SynthesisError(f"the answer has {len(text):,} characters, too many for {what}", "parse")
    return text


def parse_json(form: type[M], content: str) -> M:
    """Parse the JSON that a model wrote, with or without words around it. Raises SynthesisError."""
    problem, found = "there is no JSON object in it", []
    for text in _json_texts(content):
        try:
            found.append(form.model_validate_json(text))
        except ValidationError as error:
            problem = _problem(error)
    if found and all(each == found[0] for each in found):
        return found[0]
    problem = "it has several objects that differ" if found else problem
    raise SynthesisError(
        f"the answer is not the requested JSON: {problem}; if the server does not support json_schema, set"
        " structured: false",
        "parse",
    )


def _json_texts(content: str) -> Iterator[str]:
    """Yield the parts of an answer that may be the JSON asked for: its objects, and its rest from one that is broken.

    Braces within sentences begin no object.
    """
    start = 0
    while found := OBJECT.search(content, start):
        try:
            start = json.JSONDecoder(strict=False).raw_decode(content, found.start())[1]
        except (ValueError, RecursionError):
            start = len(content)
        yield content[found.start() : start]


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = _named(".".join(map(str, first["loc"])))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def completion_usage(completion: Any) -> Usage:
    """Return the usage of a completion: one call, without tokens if the server does not report them."""
    try:
        tokens = _Tokens.model_validate(completion["usage"])
    except (ValidationError, KeyError, TypeError):
        return Usage(calls=1)
    return Usage(1, tokens.prompt_tokens, tokens.completion_tokens)
