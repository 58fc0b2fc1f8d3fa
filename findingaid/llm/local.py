"""Language models in this process: a GGUF file or a Hugging Face folder, run by transformers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt

from findingaid.errors import ConfigError, SynthesisError
from findingaid.identity.hashes import content_hash, weights_hash
from findingaid.llm.background import BackgroundLoop
from findingaid.llm.caller import Caller, ChatRequest
from findingaid.llm.endpoint import Connection
from findingaid.llm.metering import pay_for
from findingaid.llm.parameters import LOCAL, ModelParameters
from findingaid.llm.rate_limits import Limits, NotWantedError, Wanted, always
from findingaid.model import NO_USAGE, Usage
from findingaid.registry import ConfigPath

EXTRA = "findingaid[local]"
"""Extra with transformers, torch and what they read GGUF files with."""

GGUF = ".gguf"

LOCAL_CONTEXT = 4_000
"""Default of `context_tokens`. Small models read 4,000 to 8,000 tokens, the prompt and the answer among them."""

LIMITS = Limits(1, None, None, 0.0, 0)
"""Limits of a model in this process: one call at a time, which uses all cores."""

KEPT = 2
"""Number of models that a process keeps loaded, the most recently used."""

LOAD_ERRORS = (ImportError, LookupError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError)
"""Exceptions of transformers for a model that it cannot load."""


@dataclass(frozen=True, kw_only=True)
class LocalParameters(ModelParameters):
    """Parameters of a producer whose model runs in this process, through transformers; needs the extra "local".

    `path` is a GGUF file, or a folder with a model of Hugging Face; nothing is downloaded. `device` is cpu, cuda or
    mps. Without a `temperature` the model always takes the most likely token. `structured` answers are forced to follow
    their schema token by token. See `ModelParameters` for the others.
    """

    path: ConfigPath
    device: str = "cpu"
    max_output_tokens: Annotated[int, Gt(0)] | None = 1_024

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.path.is_file() and self.path.suffix == GGUF) and not (self.path / "config.json").is_file():
            raise ConfigError(f"path: {self.path} is neither a {GGUF} file nor a folder with a config.json")

    @property
    def model(self) -> str:
        """Name of the model, as in the price table."""
        return self.path.name

    def caller_of(self, response_format: Mapping[str, Any]) -> Caller:
        request = ChatRequest(
            self.model,
            response_format if self.structured else None,
            self.temperature,
            self.seed,
            self.max_output_tokens,
        )
        return Caller(LocalEndpoint(self.path, self.device), LIMITS, request)

    def producer_id(self, version: int, *prompt: object) -> str:
        """Return an id as `ModelParameters` describes it, with a digest of the weights. It leaves out the `device`."""
        parameters = (self._weights, self.temperature, self.seed, self.context_tokens)
        return f"{LOCAL}-{self.path.stem}-{content_hash(version, content_hash(*prompt), *parameters)[:12]}"

    @cached_property
    def _weights(self) -> str:
        return weights_hash(self.path)


@dataclass(frozen=True)
class LocalEndpoint:
    """Model in this process, loaded at its first call."""

    path: Path
    device: str
    where = "this machine"
    attributes = {"gen_ai.provider.name": "transformers"}  # noqa: RUF012  # never changed

    def connect(self, limits: Limits) -> Connection:
        """Return a connection. Calls wait for each other, whatever the limits."""
        return LocalConnection(self)


class LocalConnection:
    """Calls of a model in this process, in the form of the OpenAI API."""

    def __init__(self, endpoint: LocalEndpoint) -> None:
        self.process = os.getpid()
        self.loop = BackgroundLoop()
        self._endpoint = endpoint

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        tokens: int = 0,
        most: Usage = NO_USAGE,
        wanted: Wanted = always,
        probe: Mapping[str, Any] | None = None,
    ) -> Any:
        """Write a completion. Raises ConfigError if the model does not load."""
        model = await asyncio.to_thread(load_model, self._endpoint)
        with pay_for(most) as answered:
            completion = await asyncio.to_thread(model.complete, body, wanted)
            answered(completion)
        return completion


_LOADING = threading.Lock()


def load_model(endpoint: LocalEndpoint) -> LocalModel:
    """Return the loaded model of an endpoint; producers with the same model share it. Raises ConfigError."""
    with _LOADING:
        return _load(endpoint)


@lru_cache(KEPT)
def _load(endpoint: LocalEndpoint) -> LocalModel:
    return LocalModel(endpoint)


class LocalModel:
    """A loaded model and its tokenizer."""

    def __init__(self, endpoint: LocalEndpoint) -> None:
        try:
            import llguidance.hf
            import torch  # noqa: F401
            import transformers
        except ModuleNotFoundError as error:
            raise ConfigError(f"{endpoint.path} needs {error.name}: pip install '{EXTRA}'") from None
        whole = endpoint.path.suffix != GGUF
        folder = endpoint.path if whole else endpoint.path.parent
        given = {"local_files_only": True} if whole else {"local_files_only": True, "gguf_file": endpoint.path.name}
        try:
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, **given)
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, **given)
            self._model = model.to(endpoint.device).eval()
            self._tokenizer, self._constraints = tokenizer, llguidance.hf.from_tokenizer(tokenizer)
        except LOAD_ERRORS as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ConfigError(f"{endpoint.path} cannot be loaded: {reason}") from error
        if self._tokenizer.chat_template is None:
            raise ConfigError(f"{endpoint.path} has no chat template: choose a model that was trained on instructions")
        self._lock = threading.Lock()

    def complete(self, body: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
        """Write the completion for the body of a chat request. Raises SynthesisError, NotWantedError."""
        import torch

        prompt = self._tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(self._model.device)
        sent = prompt["input_ids"].shape[1]
        limit = self._limit(sent, body.get("max_completion_tokens"))
        temperature = body.get("temperature")
        with self._lock, torch.inference_mode(), torch.random.fork_rng(enabled=bool(temperature)):
            if temperature:
                torch.manual_seed(body.get("seed", 0))
            written = self._model.generate(
                **prompt,
                max_new_tokens=limit,
                do_sample=bool(temperature),
                temperature=temperature or None,
                logits_processor=[_while_wanted(wanted), *self._constraint(body)],
            )[0, sent:].tolist()
        return {
            "choices": [
                {
                    "message": {"content": self._tokenizer.decode(written, skip_special_tokens=True)},
                    "finish_reason": "stop" if written and written[-1] in self._ends else "length",
                }
            ],
            "usage": {"prompt_tokens": sent, "completion_tokens": len(written)},
        }

    def _limit(self, sent: int, limit: int | None) -> int:
        """Return the maximum tokens of an answer. Raises SynthesisError if the model has no room for one."""
        room: int = self._model.config.max_position_embeddings - sent
        if room < 1:
            raise SynthesisError(
                f"the request has {sent:,} tokens, too many for the model: lower context_tokens", "parse"
            )
        return min(room, limit or room)

    @cached_property
    def _ends(self) -> set[int]:
        """Tokens that end an answer."""
        ends = self._model.generation_config.eos_token_id
        return {self._tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}

    def _constraint(self, body: Mapping[str, Any]) -> Iterator[Callable[[Any, Any], Any]]:
        """Yield the processor that lets the model write only what follows the schema, if there is one."""
        from llguidance import LLMatcher

        if asked := body.get("response_format"):
            schema = asked["json_schema"]["schema"]
            grammar = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})
            yield _Constraint(LLMatcher(self._constraints, grammar), self._constraints.vocab_size)


class _Constraint:
    """Processor of logits that rules out the tokens after which no answer follows the grammar."""

    def __init__(self, matcher: Any, vocabulary: int) -> None:
        from llguidance.numpy import allocate_token_bitmask

        self._matcher = matcher
        self._bits = allocate_token_bitmask(1, vocabulary)
        self._seen: int | None = None

    def __call__(self, tokens: Any, scores: Any) -> Any:
        import torch
        from llguidance.numpy import fill_next_token_bitmask

        if self._seen is not None:
            self._matcher.consume_tokens(tokens[0, self._seen :].tolist())
        self._seen = tokens.shape[1]
        fill_next_token_bitmask(self._matcher, self._bits)
        allowed = np.unpackbits(self._bits.view(np.uint8), axis=1, bitorder="little")
        blocked = np.ones((1, scores.shape[1]), np.bool_)  # a model may have more outputs than tokens
        width = min(blocked.shape[1], allowed.shape[1])
        blocked[:, :width] = allowed[:, :width] == 0
        return scores.masked_fill(torch.from_numpy(blocked).to(scores.device), float("-inf"))


def _while_wanted(wanted: Wanted) -> Callable[[Any, Any], Any]:
    """Return a processor of logits that ends an answer when it is no longer wanted."""

    def check(_: Any, scores: Any) -> Any:
        if not wanted():
            raise NotWantedError
        return scores

    return check
