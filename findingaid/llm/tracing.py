"""Span and metrics of a model call, by the GenAI conventions of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from findingaid import telemetry
from findingaid.llm.completions import completion_usage

Observe = Callable[[Any], None]
"""Function that takes the completion of a call."""

TOKENS = "gen_ai.client.token.usage"


@contextmanager
def chat_span(body: Mapping[str, Any], endpoint: Mapping[str, str]) -> Iterator[Observe]:
    """Record a call of a chat model with this body; `endpoint` says where the model runs."""
    labels = {"gen_ai.operation.name": "chat", "gen_ai.request.model": body["model"], **endpoint}
    asked = {
        "gen_ai.request.temperature": body.get("temperature"),
        "gen_ai.request.max_tokens": body.get("max_completion_tokens"),
        "gen_ai.request.seed": body.get("seed"),
        "gen_ai.output.type": "json" if body.get("response_format") else "text",
    }
    details = {key: value for key, value in asked.items() if value is not None}
    with telemetry.span(
        f"chat {body['model']}", "gen_ai.client.operation.duration", labels, details, kind="CLIENT"
    ) as found:

        def observe(completion: Any) -> None:
            usage = completion_usage(completion)
            found["gen_ai.usage.input_tokens"] = usage.input_tokens
            found["gen_ai.usage.output_tokens"] = usage.output_tokens
            for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                telemetry.count(TOKENS, "{token}", tokens, labels | {"gen_ai.token.type": kind})
            if isinstance(completion, dict):
                named = {"gen_ai.response.id": completion.get("id"), "gen_ai.response.model": completion.get("model")}
                found.update({key: value for key, value in named.items() if isinstance(value, str)})

        yield observe
