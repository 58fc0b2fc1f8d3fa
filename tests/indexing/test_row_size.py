"""A small artifact cannot take the memory of the run: what is repeated in every row is cut, or fails alone by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from findingaid import FindingAid
from findingaid.indexing import row_size
from findingaid.indexing.options import BuildOptions
from findingaid.indexing.pipeline import Pipeline
from findingaid.indexing.run import ID_BYTES
from findingaid.indexing.work import Batch
from findingaid.indexing.writer import BatchWriter
from findingaid.model import Listing, Raw, Surface, SurfacePlan
from findingaid.sources.files import Files
from findingaid.sources.records import RecordFile
from findingaid.store import Ledger
from findingaid.strategies.chunked import Chunked
from findingaid.testing import MemorySource
from findingaid.text.titles import MOST_CHARACTERS
from tests.conftest import text_about

LONG = "long title words " * 10_000
BODY = "\n\n".join(f"Paragraph {i} about gears and pumps." for i in range(200))
Make = Callable[..., FindingAid]


def test_titles_and_headings_are_cut_where_they_are_made(make_aid: Make, tmp_path: Path) -> None:
    texts = {
        "heading.md": f"# {LONG}\n\n{BODY}",
        "title.md": f"---\ntitle: {LONG[:15_000]}\n---\n\n{BODY}",
        "headings.md": f"# A\n\n## {LONG}\n\n### {LONG}\n\n{BODY}",
    }
    (tmp_path / "docs").mkdir()
    for name, text in texts.items():
        (tmp_path / "docs" / name).write_text(text)
    aid = make_aid(source=Files(tmp_path / "docs"), strategy=Chunked(), synthesizer=None)
    assert aid.index().ok

    for name in texts:
        (hit,) = aid.search("paragraph gears pumps", 1, where=f"artifact_id = '{name}'")
        said = [hit.metadata["title"], *hit.metadata.get("headings", ())]
        assert max(map(len, said)) <= MOST_CHARACTERS, name
        assert any(each.endswith("…") for each in said), name
    rows = aid.store.rows("records", ["title", "metadata"]).to_pylist()
    assert sum(len(row["metadata"]) + len(row["title"]) for row in rows) < len(rows) * 20_000


def test_a_row_whose_fields_would_be_repeated_too_often_fails_alone_and_names_the_field(
    make_aid: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_size, "ARTIFACT_BYTES", 500_000)
    rows = [{"id": "a", "text": BODY, "notes": "x" * 100_000}, {"id": "b", "text": text_about("ledger")}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = RecordFile(tmp_path / "rows.jsonl", text="text", metadata=("notes",))
    aid = make_aid(source=source, strategy=Chunked(chunk_size=200), synthesizer=None)

    report = aid.index().corpora["docs"]
    (failure,) = report.failed
    assert (failure.artifact_id, failure.stage, failure.kind) == ("a", "surfaces", "too_large")
    assert "since each repeats 'notes' with 100,002: leave that field out, or exclude it" in failure.message
    assert {hit.artifact_id for hit in aid.search("ledger")} == {"b"}


class Repeating:
    """Strategy whose surfaces each hold the whole text."""

    strategy_id = "repeating"

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        times = 50 if "big" in artifact_id else 1
        return SurfacePlan({}, [Surface("part", str(raw), metadata={"n": i}) for i in range(times)])


def test_a_strategy_that_makes_too_much_of_a_text_fails_that_artifact(
    make_aid: Make, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_size, "ARTIFACT_BYTES", 10_000)
    source.payloads.clear()
    source.payloads |= {"big.md": text_about("vector"), "small.md": text_about("ledger")}
    aid = make_aid(strategy=Repeating(), synthesizer=None)
    (failure,) = aid.index().corpora["docs"].failed
    assert (failure.artifact_id, failure.kind) == ("big.md", "too_large")
    assert "most of it in their own texts and metadata" in failure.message
    assert {hit.artifact_id for hit in aid.search("ledger")} == {"small.md"}


def test_an_id_over_the_limit_is_refused_by_its_beginning(make_aid: Make, source: MemorySource) -> None:
    source.payloads["x" * ID_BYTES] = text_about("ledger")
    source.payloads["x" * (ID_BYTES + 1)] = text_about("vector")
    aid = make_aid(synthesizer=None)

    (failure,) = aid.index().corpora["docs"].failed

    assert len(failure.artifact_id) < 100
    assert (failure.kind, failure.message) == (
        "too_large",
        "its id has 4,097 bytes, the limit is 4,096: shorten it or leave it out",
    )
    assert "x" * ID_BYTES in {hit.artifact_id for hit in aid.search("ledger")}


def test_a_batch_that_takes_too_much_memory_is_built_in_halves(
    make_aid: Make, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.payloads |= {f"{i}.md": text_about(f"topic {i}") for i in range(3)}
    whole = make_aid(synthesizer=None)
    assert whole.index().ok
    expected = {hit.record_id: hit.text for hit in whole.search("topic", 50)}

    monkeypatch.setattr(row_size, "BATCH_BYTES", 2_000)
    computed: list[int] = []
    compute = Pipeline.compute

    def counting(self: Pipeline, part: Sequence[Listing], options: BuildOptions) -> Batch:
        computed.append(len(part))
        return compute(self, part, options)

    monkeypatch.setattr(Pipeline, "compute", counting)
    assert whole.index(force=True).ok
    assert len(computed) > 1
    assert {hit.record_id: hit.text for hit in whole.search("topic", 50)} == expected


@pytest.mark.parametrize(("owner", "at"), [(Pipeline, "compute"), (BatchWriter, "write")])
def test_artifacts_that_take_more_memory_than_there_is_fail_and_the_run_goes_on(
    make_aid: Make, source: MemorySource, monkeypatch: pytest.MonkeyPatch, owner: type, at: str
) -> None:
    source.payloads.clear()
    source.payloads |= {"big.md": text_about("vector"), **{f"{i}.md": text_about("ledger") for i in range(3)}}
    plain = getattr(owner, at)

    def scarce(self: object, given: Any, *options: Any) -> Any:
        ids = [x.artifact_id for x in (given if at == "compute" else given.live)]
        if "big.md" in ids:
            raise MemoryError
        return plain(self, given, *options)

    monkeypatch.setattr(owner, at, scarce)
    aid = make_aid(synthesizer=None)
    report = aid.index()

    failed = {failure.artifact_id: failure.kind for failure in report.corpora["docs"].failed}
    assert failed == dict.fromkeys(["big.md"] if at == "compute" else source.payloads, "memory")
    assert Ledger(aid.store).rows_of("docs", "records") == len(source.payloads) - len(failed)
