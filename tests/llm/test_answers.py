"""Whatever an endpoint answers is a whole answer, or a failure by name that says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from findingaid.claims import openai_claims, openai_nodes
from findingaid.errors import ConfigError, SynthesisError
from findingaid.llm.api_errors import interpret_status, reported_error
from findingaid.llm.completions import answer_text, parse_json, short_text
from findingaid.llm.endpoint import Endpoint
from findingaid.llm.prompts import enclose
from findingaid.llm.thoughts import without_thoughts
from findingaid.model import Outcome, Segment, SynthesizerInput
from findingaid.protocols import Member
from findingaid.query.answers.generation import WrittenAnswer
from findingaid.synthesis import openai_summary
from findingaid.synthesis.anchored_summary import LABELS
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.testing import OpenAIServer, faults
from findingaid.testing.faults import Fault

ANSWER = "The ferry leaves at nine."


def completion(content: Any, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}]}


def filtered(**found: Any) -> dict[str, Any]:
    """Return a whole answer with what a filter found."""
    (choice,) = completion(ANSWER)["choices"]
    return {"choices": [{**choice, "content_filter_results": found}]}


class Form(BaseModel, extra="forbid"):
    synopsis: str


# Thoughts


@pytest.mark.parametrize(
    "content",
    [
        f"<think>Be brief.</think>{ANSWER}",
        f"\n<think>\n\n</think>\n\n{ANSWER}",
        f"Okay, the user wants it short.\n</think>\n\n{ANSWER}",
        f"Be brief.</think>{ANSWER}",
        f"<thinking>Be brief.</thinking>\n{ANSWER}",
        f"<think>Be brief.</thinking>\n{ANSWER}",
        f"<seed:think>Be brief.</seed:think>{ANSWER}",
        f"<think>One.</think><think>Two.</think>{ANSWER}",
        f"<think>Be <think>brief</think> now.</think>{ANSWER}",
        f"[THINK]Be brief.[/THINK]{ANSWER}",
        f"\u25c1think\u25b7Be brief.\u25c1/think\u25b7{ANSWER}",
        f"<|begin_of_thought|>Be brief.<|end_of_thought|><|begin_of_solution|>{ANSWER}<|end_of_solution|>",
        f"<|START_THINKING|>Be brief.<|END_THINKING|><|START_RESPONSE|>{ANSWER}<|END_RESPONSE|>",
        f"<|channel|>analysis<|message|>Brief.<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>",
        f"<|channel|>final <|constrain|>json<|message|>{ANSWER}",
        f"We are brief.<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}",
        f"<|channel|>analysis<|message|>In <|channel|>final.<|start|>assistant<|channel|>final<|message|>{ANSWER}",
        f"<|channel|>analysis<|message|>Brief.<|channel|>final<|message|>{ANSWER}<|end|>",
        f"analysisWe are brief.assistantfinal{ANSWER}",
        f"```\na = 1\n```\nThis is code. Be brief.\n</think>\n\n{ANSWER}",
        f"{{name}} is to be filled in. Be brief.</think>\n{ANSWER}",
        f'{{"synopsis": "a draft"}}\nToo long.\n</think>\n{ANSWER}',
        f"<think>Be brief.</think>\n<answer>\n{ANSWER}\n</answer>",
        f"{ANSWER}<|im_end|>",
        ANSWER.replace("leaves", "<think>I will be brief</think>leaves"),
        f"assistant\n\n{ANSWER}",
        f"<|start_header_id|>assistant<|end_header_id|>\n\n{ANSWER}",
        f"<|im_start|>assistant\n{ANSWER}<|im_end|>",
        f"<think >Be brief.</think >{ANSWER}",
        f'<think kind="short">Be brief.</think>\n{ANSWER}',
        f"<thought_process>Be brief.</thought_process>\n{ANSWER}",
        f"<|think|>Be brief.<|/think|>{ANSWER}",
        f"[/INST] {ANSWER}</s>",
        f"{ANSWER}<\uff5cend\u2581of\u2581sentence\uff5c>",
        f"{ANSWER}<|im_end|>\n<|im_start|>user\nAnd the other one?",
        f"{ANSWER}\n<|user|>\nAnd the other one?",
        f"{ANSWER}<end_of_turn>\n<start_of_turn>user\nAnd the other one?<end_of_turn>",
        f"<unused94>thought\nBe brief.<unused95>{ANSWER}",
        f"The user asks about <think> and how it ends. Be brief.\n</think>\n\n{ANSWER}",
        f"```thinking\nBe brief.\n```\n{ANSWER}",
        f"\n~~~reasoning\nBe brief.\n~~~\n\n{ANSWER}",
        f'<details type="reasoning" done="true">\n<summary>Thought</summary>\nBrief.\n</details>\n{ANSWER}',
        f"&lt;think&gt;Be brief.&lt;/think&gt;\n{ANSWER}",
        f"< think >\nBe brief.\n</ think >\n{ANSWER}",
        f"Thought: I will be brief.\nFinal Answer: {ANSWER}",
        f"**Thinking process:**\n\n1. Be brief.\n\n**Final answer:**\n\n{ANSWER}",
        f"## Thinking\nBe brief.\n\n## Answer\n{ANSWER}",
    ],
)
def test_thoughts_of_any_form_are_not_part_of_an_answer(content: str) -> None:
    assert without_thoughts(content) == ANSWER


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (openai_claims.read, {"claims": [{"text": "{}", "quote": "leaves at nine"}]}),
        (
            partial(openai_summary.read, segments=[Segment(1, "When does it leave?", ANSWER)], existing=None),
            {**{section: [] for section in LABELS}, "intent": [{"text": "{}", "turns": [1]}]},
        ),
        (
            partial(openai_nodes.read, members=[Member("a", ANSWER, "fact", 1.0, ())]),
            {"bullets": [{"text": "{}", "claims": [1]}], "themes": ["{}"]},
        ),
        (partial(parse_json, WrittenAnswer), {"sentences": [{"text": "{}", "evidence": [1]}]}),
    ],
    ids=["claims", "session", "node", "answer"],
)
def test_thoughts_within_the_texts_of_json_are_not_part_of_them(read: Callable[[str], Any], answer: Any) -> None:
    def said(words: str) -> str:
        return json.dumps(answer).replace("{}", words)

    assert read(said(f"<think>Be brief.</think>{ANSWER}")) == read(said(ANSWER))
    with pytest.raises(SynthesisError, match="thoughts that never end"):
        read(said("<think>The user wants"))


@pytest.mark.parametrize(
    "text",
    [
        "The page explains the <think> tag of reasoning models.",
        "The parser removes everything between <think> and </think>.",
        "Models write `<think>` before and `</think>` after their thoughts.",
        "The closing tag </think> ends the thoughts.",
        "The parser removes <think>...</think> and <think>\u2026</think> from answers.",
        "<think>...</think> is removed.",
        "A report has <analysis>text</analysis> and <thought>two words</thought> elements.",
        "The method returns List<Thought> and Box<Analysis>of a class.",
        "A filter drops all before the closing tag: </think> is the last of it.",
        "Known tags are <thinking>, [THINK]. </think> closes each.",
        "A harmony prompt has <|channel|> tokens such as <|message|>.",
        "The head of an answer is <|channel|>final<|message|> and its end is <|end|> in harmony.",
        "Answers begin with `<|start|>assistant<|channel|>final<|message|>` and end with `<|return|>`.",
        "A turn ends with <|im_end|>, and the next begins with <|im_start|>user in ChatML.",
        "Between `<|im_end|>` and `<|im_start|>` stands nothing; `</s><|user|>` is of another model.",
        '{"synopsis": "Turns are parted by <|im_end|><|im_start|> tokens."}',
        "<|channel|> names the channel, and <|message|> begins the text.",
        '```json\n{"synopsis": "Models write <think> first.</think>"}\n```',
        '{"synopsis": "It ends\nwith </think>."} I hope that this helps.',
        "[Thinking] fast and [thinking](slow.md) are two chapters.",
        "Analysis of the ferries.",
        "Thinking: fast and slow. The answer: both.",
        "Thoughts on ferries\nThey leave at nine.",
        "```python\nthink()\n```\nThis is code.",
        "<details><summary>More</summary>Ferries.</details> They leave at nine.",
        '{"synopsis": "<think>is a tag</think> of models"}',
        'Be brief.</think>\n{"synopsis": "It ends with </think>."}',
    ],
)
def test_a_text_about_such_tags_keeps_them(text: str) -> None:
    assert without_thoughts(text) == text.removeprefix("Be brief.</think>\n")


@pytest.mark.parametrize(
    "text",
    [
        "The tokens <|channel|>final<|message|> begin it.",
        "A message ends with <|end|> or `<|return|>`, before `<|start|>assistant`.",
        "`<|start|>assistant<|channel|>analysis<|message|>` begins thoughts.",
    ],
)
def test_an_answer_in_the_harmony_format_may_be_about_the_harmony_format(text: str) -> None:
    assert (
        without_thoughts(
            f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{text}<|return|>"
        )
        == text
    )


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (completion("<think>Okay, the user wants"), "truncated"),
        (completion(f"{ANSWER} <think>let me"), "truncated"),
        (completion("<think>Okay.</think>"), "parse"),
        (completion("```thinking\nOkay, the user wants"), "truncated"),
        (completion('<details type="reasoning">Okay, the user wants'), "truncated"),
        (completion("```reasoning\nOkay.\n```\n"), "parse"),
        (completion("Okay.\n</think>\n"), "parse"),
        (completion("<|channel|>analysis<|message|>Be brief."), "parse"),
        (completion("analysisWe are brief"), "parse"),
        (completion("", reasoning_content="The user wants"), "parse"),
        (completion(" \u200b\n"), "parse"),
        (completion(None), "parse"),
        (completion([]), "parse"),
        (completion([{"type": "thinking", "thinking": [{"type": "text", "text": "Be brief."}]}]), "parse"),
        (completion([{"type": "image_url", "image_url": {}}]), "parse"),
        (completion({"synopsis": ANSWER}), "parse"),
        (completion([{"type": "refusal", "refusal": "No."}]), "refused"),
        (completion(ANSWER, refusal="No."), "refused"),
        (completion(ANSWER, "SAFETY"), "refused"),
        (completion(ANSWER, "MAX_TOKENS"), "truncated"),
        ({"choices": [{"message": {"content": ANSWER}, "stop_reason": "length"}]}, "truncated"),
        (completion(ANSWER, "model_length"), "truncated"),
        (filtered(hate={"filtered": True, "severity": "high"}), "refused"),
        (filtered(custom_blocklists=[{"filtered": True, "id": "names"}]), "refused"),
        (
            {"prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True}}}], **completion(ANSWER)},
            "refused",
        ),
        ({"status": "incomplete", **completion(ANSWER)}, "transport"),
        ({"status": "in_progress", **completion(ANSWER)}, "transport"),
        ({"incomplete_details": {"reason": "max_output_tokens"}, **completion(ANSWER)}, "truncated"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, **completion(ANSWER)}, "refused"),
        ({"incomplete_details": {"reason": "stop"}, **completion(ANSWER)}, "transport"),
        (completion(ANSWER, status="incomplete"), "transport"),
        ({"choices": [{**completion(ANSWER)["choices"][0], "native_finish_reason": "MAX_TOKENS"}]}, "truncated"),
        ({"choices": [{**completion(ANSWER)["choices"][0], "native_finish_reason": "SAFETY"}]}, "refused"),
        (
            {"choices": [{**completion(ANSWER)["choices"][0], "native_finish_reason": "MALFORMED_FUNCTION_CALL"}]},
            "transport",
        ),
        ({"choices": [{**completion(ANSWER)["choices"][0], "finish_details": {"type": "max_tokens"}}]}, "truncated"),
        ({"done_reason": "length", **completion(ANSWER, None)}, "truncated"),
        ({"done": False, **completion(ANSWER, None)}, "transport"),
        ({"truncated": True, **completion(ANSWER)}, "truncated"),
        (completion(ANSWER, "tool_calls"), "parse"),
        (completion(ANSWER, "function_call"), "parse"),
        (completion("I will look that up.", tool_calls=[{"function": {"name": "find"}}]), "parse"),
        (completion(ANSWER, "error"), "transport"),
        (completion(ANSWER, "insufficient_system_resource"), "transport"),
        (completion(ANSWER, "anything new"), "transport"),
        ({"choices": [{"message": None}]}, "parse"),
        ({"choices": [{"text": ANSWER}]}, "parse"),
        (None, "parse"),
        ([], "parse"),
        ("text", "parse"),
        ({"detail": "not here"}, "parse"),
        ({"error": {"message": "overloaded", "code": 529}, **completion(ANSWER)}, "transport"),
        ({"object": "error", "message": "no such adapter", "code": 404}, "other"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(answer: Any, kind: str) -> None:
    with pytest.raises(SynthesisError) as raised:
        answer_text(answer)

    assert raised.value.kind == kind
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("finish", ["stop", "STOP", "eos", "eos_token", "end_turn", "stop_sequence", "COMPLETE", None])
def test_reasons_of_whole_answers_are_known_and_a_server_may_give_none(finish: str | None) -> None:
    assert answer_text(completion(ANSWER, finish)) == ANSWER
    native = {"native_finish_reason": "a word of the provider", "done": True, "done_reason": "stop", "truncated": False}
    assert answer_text({"choices": [{**completion(ANSWER, finish)["choices"][0], **native}], **native}) == ANSWER


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": ANSWER}],
        [{"type": "text", "text": "The ferry "}, {"type": "output_text", "text": "leaves at nine."}],
        ["The ferry ", "leaves at nine."],
        [{"type": "thinking", "thinking": "Be brief."}, {"type": "text", "text": {"value": ANSWER}}],
    ],
)
def test_content_in_parts_is_the_text_of_its_parts(content: Any) -> None:
    assert answer_text(completion(content)) == ANSWER


def test_of_several_choices_the_one_of_index_0_is_the_answer_in_any_order() -> None:
    (first,), (other,) = completion(ANSWER)["choices"], completion("No ferry leaves.", "length")["choices"]
    broken = {"index": 0, "error": {"message": "overloaded", "code": 503}}

    assert answer_text({"choices": [{**other, "index": 1}, {**first, "index": 0}]}) == ANSWER
    assert answer_text({"choices": [first, other]}) == ANSWER
    assert reported_error({"choices": [{**first, "index": 1}, broken]}) == 503


@pytest.mark.parametrize("said", ["NOTHING", "Nothing.", '"NOTHING"', "**nothing to say**"])
def test_the_word_nothing_alone_says_nothing(said: str) -> None:
    assert short_text(said, 100, "a synopsis") == ""


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("I'm sorry, but I can\u2019t help with that.", "refused"),
        ("I cannot assist with this request.", "refused"),
        ("Unfortunately, I am unable to process this request.", "refused"),
        ("As an AI language model, I can\u2019t access the document.", "refused"),
        ("I\u2019m not able to summarize this text.", "refused"),
        ("...", "parse"),
        ("word " * 500, "parse"),
        ('<tool_call>\n{"name": "find"}\n</tool_call>', "parse"),
        ("<html><body>502 Bad Gateway</body></html>", "parse"),
        ('{"error": {"message": "overloaded"}}', "parse"),
        ('{"name": "find", "arguments": {"words": "ferry"}}', "parse"),
        ('[TOOL_CALLS][{"name": "find", "arguments": {}}]', "parse"),
        ('<|python_tag|>{"name": "find", "parameters": {}}', "parse"),
        ("<function=find>\n<parameter=words>ferry</parameter>\n</function>", "parse"),
        ("<\uff5ctool\u2581calls\u2581begin\uff5c>function", "parse"),
        ("Error: the upstream did not answer in time", "parse"),
        ("litellm.Timeout: the upstream did not answer in time", "parse"),
        ("\n".join(enclose("The ferry leaves at nine.").values()), "parse"),
        ("null", "parse"),
        ("N/A", "parse"),
        ("None.", "parse"),
        ("string", "parse"),
        ("<synopsis>", "parse"),
        ("[Your summary here]", "parse"),
        ("Please provide the text you would like me to summarize.", "parse"),
        ("I\u2019m ready to help! Could you share the document?", "parse"),
        ("There is no document provided.", "parse"),
        ("It looks like you haven\u2019t provided any text. Could you share it?", "parse"),
        ("I don't see any text to summarize.", "parse"),
        ("No text was provided.", "parse"),
    ],
)
def test_what_is_no_text_of_its_kind_is_refused(said: str, kind: str) -> None:
    with pytest.raises(SynthesisError) as raised:
        short_text(said, 100, "a synopsis")

    assert raised.value.kind == kind
    for text in (
        "Sorry is a card game. I cannot say who won.",
        "Errors of a client: which of them it tries again.",
        "None of the ferries leaves at nine.",
        "Please provide the documents of the ferry at the desk.",
        "No document of the ferry names an hour.",
        "There is no text on the sign at the pier.",
        "You have not shared the text with the crew, says the captain.",
    ):
        assert short_text(text, 100, "a synopsis") == text


# JSON


@pytest.mark.parametrize(
    "content",
    [
        '{"synopsis": "x"}',
        '```json\n{"synopsis": "x"}\n```',
        'Sure! Here it is:\n\n```json\n{"synopsis": "x"}\n```\nTell me if you want more.',
        'Here is the JSON: {"synopsis": "x"}',
        'Here {is} it:\n{"synopsis": "x"}\nI hope that this helps {smile}!',
        '{"synopsis": "x"}\n{"synopsis": "x"}',
        'I was given the schema {"type": "object"}. {"synopsis": "x"}',
        '[{"synopsis": "x"}]',
        "{" * 50_000 + '{"synopsis": "x"}',
    ],
)
def test_json_is_found_among_other_words(content: str) -> None:
    assert parse_json(Form, content).synopsis == "x"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("Sure! Here is the synopsis.", "there is no JSON object in it"),
        ("null", "there is no JSON object in it"),
        ('{"synopsis": "broken o', "EOF while parsing a string"),
        ('{"summary": "x"}', "synopsis: Field required"),
        ('{"synopsis": null}', "synopsis: Input should be a valid string"),
        ('{"synopsis": "x"} and {"synopsis": "y"}', "several objects that differ"),
        ("{'synopsis': 'x'}", "key must be a string"),
        ('{"synopsis": "x",}', "trailing comma"),
        ('{"synopsis": {"synopsis": "broken o', "EOF while parsing a string"),
        ('{"a":' * 10_000, "recursion limit"),
        ("[" * 10_000, "there is no JSON object in it"),
    ],
)
def test_an_answer_without_the_json_says_why(content: str, reason: str) -> None:
    with pytest.raises(SynthesisError, match="not the requested JSON") as raised:
        parse_json(Form, content)

    assert reason in str(raised.value)


# Errors


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (413, {"error": "inputs must have less than 512 tokens", "error_type": "Validation"}, "less than 512 tokens"),
        (400, {"error": "this model does not support embeddings"}, "does not support embeddings"),
        (422, {"detail": [{"loc": ["body", "n"], "msg": "not permitted", "input": "secret"}]}, "body.n: not permitted"),
        (403, {"detail": "project is suspended"}, "project is suspended"),
        (500, [{"error": {"code": 500, "message": "internal", "status": "INTERNAL"}}], "500 INTERNAL: internal"),
        (400, {"error": {"error": {"message": {"detail": "nested"}}}}, "nested"),
        (400, {"errors": [{"message": "one"}, {"message": "two"}]}, "one; two"),
        (400, {"error": {"message": "Provider returned error", "metadata": {"raw": "too hot"}}}, "error: too hot"),
        (502, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
        (500, "plain words", "plain words"),
        (400, {"error": None, "message": "beside it"}, "beside it"),
        (400, {}, "400"),
        (400, None, "400"),
        (400, {"error": {"message": "long " * 1_000}}, "\u2026"),
        (401, {"error": {"message": "the token has expired"}}, "the token has expired"),
    ],
)
def test_the_words_of_a_server_reach_the_user_in_any_form(status: int, body: Any, words: str) -> None:
    message = interpret_status(status, body, {}).message

    assert words in message
    assert message.startswith(str(status))
    assert len(message) < 500
    assert "secret" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, "input (681 tokens) is too large to process. increase the physical batch size"),
        (400, "the request exceeds the available context size"),
        (400, "Input text exceeds maximum length of 8194 tokens"),
        (413, ""),
    ],
)
def test_a_text_that_is_too_long_is_the_fault_of_its_request_and_the_hint_is_that_of_its_part(
    status: int, words: str
) -> None:
    error = interpret_status(status, {"error": words}, {}, "lower context_tokens")

    assert error.message.endswith(": lower context_tokens")
    assert error.request_only
    assert not error.retryable


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"error": {"code": 502, "message": "x"}}, 502),
        ({"error": {"code": "429"}}, 429),
        ({"error": {"type": "rate_limit_error"}}, 429),
        ({"error": {"type": "invalid_request_error"}}, 400),
        ({"error": "any words", "choices": []}, 500),
        ({"choices": [{"error": {"code": 503}, "finish_reason": "error"}]}, 503),
        ({"error": None, **completion(ANSWER)}, None),
        (completion(ANSWER), None),
        ({"data": []}, None),
        (None, None),
    ],
)
def test_an_error_within_an_answer_of_status_200_counts_as_its_own_status(answer: Any, status: int | None) -> None:
    assert reported_error(answer) == status


@pytest.mark.parametrize(
    ("key", "where"),
    [("\u201csk-one\u201d", "character 1"), ("sk-\none", "character 4"), ("sk-\u00fcber", "character 4")],
)
def test_a_key_that_no_header_can_hold_is_named_and_not_shown(key: str, where: str) -> None:
    with pytest.raises(ConfigError, match=r"^api_key: .* copy the key again") as raised:
        Endpoint("http://localhost/v1", key).client_options()

    assert where in str(raised.value)
    assert "sk-" not in str(raised.value)
    assert Endpoint("http://localhost/v1", "sk-one\n").client_options()["api_key"] == "sk-one"


def test_json_of_any_depth_is_a_failure_and_no_traceback() -> None:
    nested: Any = "deep"
    for _ in range(50):
        nested = {"error": nested}

    assert interpret_status(400, nested, {}).message.startswith("400")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_an_answer_is_read_in_any_encoding_of_unicode(encoding: str) -> None:
    with OpenAIServer() as server:
        body = json.dumps(completion(ANSWER)).encode(encoding)
        server.when(lambda _: True, Fault("encoded", raw=body))
        synthesizer = OpenAISynthesizer("m", base_url=server.base_url, structured=False, retries=0)

        assert synthesizer.synthesize("The ferry leaves at nine.", {}) == ANSWER


def test_an_answer_in_another_encoding_fails_and_says_so() -> None:
    with OpenAIServer() as server:
        body = json.dumps(completion("The caf\u00e9 is open."), ensure_ascii=False).encode("latin-1")
        server.when(lambda _: True, Fault("latin-1", raw=body))
        synthesizer = OpenAISynthesizer("m", base_url=server.base_url, structured=False, retries=0)

        with pytest.raises(SynthesisError, match="not JSON: it is not UTF-8"):
            synthesizer.synthesize("The ferry leaves at nine.", {})


@pytest.mark.parametrize(
    "address", ["localhost:1", "http://localhost:99999/v1", "http://localhost:abc/v1", "http://[::1/v1", "http://:80"]
)
def test_an_address_that_is_none_is_refused_before_anything_is_sent(address: str) -> None:
    with pytest.raises(ConfigError, match="base_url: expected an address"):
        OpenAISynthesizer("m", base_url=address)


KEY = "sk-harbour-" + "0123456789abcdefghijklmnopqrstuvwxyz" * 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault("cut in the words", 400, {"message": "long " * 55 + KEY}),
        Fault("cut in the code", 400, {"message": "no", "code": "c" * 45 + KEY}),
        Fault("no choices", raw=json.dumps({"detail": f"{KEY} has no access"}).encode()),
        Fault("a reason", raw=json.dumps(completion(ANSWER, f"stopped: {KEY}")).encode()),
        Fault("a part", raw=json.dumps(completion([{"type": KEY}])).encode()),
        Fault("a page", raw=f"<title>{'Sign in ' * 5}{KEY}</title>".encode()),
        faults.content(json.dumps({"error": KEY})),
    ],
    ids=lambda fault: fault.name,
)
def test_no_part_of_a_key_is_shown_wherever_an_answer_repeats_it_and_words_are_cut(fault: Fault) -> None:
    with OpenAIServer(api_key=KEY) as server:
        server.when(lambda _: True, fault)
        synthesizer = OpenAISynthesizer("m", base_url=server.base_url, api_key=KEY, structured=False, retries=0)
        (_, synopsis), *_ = synthesizer.synthesize_all([SynthesizerInput("a", "The ferry leaves at nine.", {})])

    assert synopsis.outcome is Outcome.FAILED
    assert "***" in synopsis.message
    assert KEY[:12] not in synopsis.message.replace("_", "-")


@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_redirect_is_not_followed_and_says_where_to(status: int) -> None:
    """Keys in headers, and texts, would go to any host that an endpoint names."""
    with OpenAIServer() as other, OpenAIServer() as server:
        place = f"{other.base_url}/chat/completions?token=secret"
        server.when(lambda _: True, Fault("moved", status, raw=b"", headers={"location": place}))
        synthesizer = OpenAISynthesizer(
            "m", base_url=server.base_url, api_key=KEY, default_headers={"X-Api-Key": KEY}, retries=0
        )
        (_, synopsis), *_ = synthesizer.synthesize_all([SynthesizerInput("a", "The ferry leaves at nine.", {})])
        asked = other.requests

    assert not asked
    assert synopsis.outcome is Outcome.FAILED
    assert f"{status}: the endpoint redirects to {other.base_url}/chat/completions" in synopsis.message
    assert "set base_url" in synopsis.message
    assert "secret" not in synopsis.message
