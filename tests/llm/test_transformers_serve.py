"""A server of OpenAI's API that nobody here wrote, `transformers serve`, with a model that always says one sentence."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import findingaid
from findingaid import ModelError
from tests.conftest import Cli, text_about
from tests.support.deployment import until
from tests.support.serving import listens

pytestmark = [pytest.mark.slow, pytest.mark.release]

WORDS = ("The", " ferry", " leaves", " at", " nine.")
SENTENCE = "".join(WORDS)
LIMIT = 8_000
"""Most tokens that the model reads. To it, each byte of a prompt is a token."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a model that gives each token one successor: SENTENCE follows a prompt, and then the end."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokens.add_tokens(list(WORDS))
    template = "{% for message in messages %}{{ message.content }}\n{% endfor %}<answer>"
    special = {"eos_token": "<end>", "additional_special_tokens": ["<answer>"], "chat_template": template}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, **special)
    tokenizer.save_pretrained(folder)

    chain = tokenizer.convert_tokens_to_ids(["<answer>", *WORDS, "<end>"])
    size = len(tokenizer) + len(tokenizer) % 2
    shape = {"hidden_size": size, "intermediate_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = LlamaConfig(
        vocab_size=size, max_position_embeddings=LIMIT, eos_token_id=chain[-1], bos_token_id=None, **shape
    )
    network = LlamaForCausalLM(config)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        network.model.norm.weight.fill_(1)
        network.model.embed_tokens.weight.copy_(torch.eye(size))
        for token, following in itertools.pairwise(chain):
            network.lm_head.weight[following, token] = 1
    network.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def address(model: Path) -> Iterator[str]:
    """Address of the server's API."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [Path(sys.executable).parent / "transformers", "serve", model, "--port", str(port), "--device", "cpu"]
    with subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}) as server:
        until(lambda: listens(port) or server.poll() is not None, "the server does not start")
        yield f"http://127.0.0.1:{port}/v1"
        server.terminate()


@pytest.fixture
def asked(cli: Cli, model: Path, address: str) -> dict[str, Any]:
    """Settings of the model, in a folder with two documents."""
    for name in ("reader", "ledger"):
        cli.write(f"{name}.md", text_about(name))
    return {"kind": "openai", "model": str(model), "base_url": address, "structured": False}


def test_a_synopsis_is_paid_by_the_usage_that_the_server_reports(cli: Cli, asked: dict[str, Any]) -> None:
    cli.settings |= {"synthesizer": asked}
    cli.settings["corpora"]["docs"] |= {"synopsis": True}

    first, second = (cli.json("index")["corpora"]["docs"] for _ in range(2))
    hits = cli.json("search", "ferry", "--surfaces", "synopsis")

    assert (first["calls"]["synthesize"], second["calls"]["synthesize"]) == (2, 0)
    assert first["usage"]["output_tokens"] == 2 * (len(WORDS) + 1)
    assert {hit["text"] for hit in hits} == {SENTENCE}


def test_claims_and_answers_that_are_no_json_fail_by_name(cli: Cli, asked: dict[str, Any]) -> None:
    cli.settings |= {"answer": {name: asked[name] for name in ("kind", "model", "base_url")}}
    cli.settings["corpora"]["docs"] |= {"claims": asked}

    report = cli.json("index")["corpora"]["docs"]

    assert {(failure["stage"], failure["kind"]) for failure in report["failed"]} == {("claims", "parse")}
    with pytest.raises(ModelError, match="not the requested JSON"):
        findingaid.open(cli.config).answer("what does the ledger keep", llm=True)
