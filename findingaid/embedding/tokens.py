"""Token counts of texts, by the embedder's own tokenizer, a tokenizer file, or tiktoken."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from findingaid.errors import ConfigError
from findingaid.registry import said

if TYPE_CHECKING:
    from findingaid.protocols import Embedder

Count = Callable[[str], int]

EMBEDDER = "embedder"
TIKTOKEN = "tiktoken:"


def counter(named: str, embedder: Embedder, base: Path | None = None) -> Count:
    """Return the function that counts tokens for "embedder", "tiktoken:ENCODING", or the path of a tokenizer.json.

    Special tokens are not counted, since a model's own tokenizer adds them. Raises ConfigError if there is no such
    file. The tokenizer is loaded when the first text is counted; that call raises ConfigError if loading fails.
    """
    if named == EMBEDDER:
        return embedder.count_tokens
    if named.startswith(TIKTOKEN):
        return partial(_by_tiktoken, named.removeprefix(TIKTOKEN))
    path = (base or Path()) / Path(named).expanduser()
    if not path.is_file():
        raise ConfigError(f"context.tokenizer: no file {path}. Known: {EMBEDDER}, {TIKTOKEN}ENCODING, a tokenizer.json")
    return partial(_by_file, str(path))


def _by_file(path: str, text: str) -> int:
    return len(_tokenizer(path).encode(text, add_special_tokens=False).ids)


def _by_tiktoken(encoding: str, text: str) -> int:
    return len(_encoding(encoding).encode(text, disallowed_special=()))


@cache
def _tokenizer(path: str) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:  # noqa: BLE001  # tokenizers raises Exception itself
        raise ConfigError(f"context.tokenizer: {path} cannot be read as a tokenizer.json: {said(error)}") from None
    tokenizer.no_truncation()  # many files truncate and pad, so that every text would have the same count
    tokenizer.no_padding()
    return tokenizer


@cache
def _encoding(name: str) -> Any:
    try:
        import tiktoken

        return tiktoken.get_encoding(name)
    except Exception as error:  # noqa: BLE001  # not installed, no such encoding, or it cannot be fetched
        raise ConfigError(
            f"context.tokenizer: tiktoken's {name!r} cannot be used: {said(error)}."
            " Install tiktoken, or name a tokenizer.json"
        ) from None
