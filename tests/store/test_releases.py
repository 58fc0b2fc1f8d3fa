"""A store of an earlier release opens in this one, which loses no decision and pays for nothing again.

`tools/stores.py` wrote them. If a schema changes, these tests say what becomes of it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import findingaid
from findingaid import FindingAid, StoreError
from findingaid.store import schemas
from findingaid.testing import OpenAIServer
from tests.paths import DATA

STORES = sorted(path.name.removesuffix(".tar.xz") for path in (DATA / "stores").iterdir())
QUESTION = "when do access tokens expire"


@pytest.fixture(params=STORES)
def release(
    request: pytest.FixtureRequest, tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The version that wrote the store in the folder of this test."""
    shutil.unpack_archive(DATA / "stores" / f"{request.param}.tar.xz", tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return request.param


def open_aid(folder: Path) -> FindingAid:
    return findingaid.open(folder / "findingaid.yaml")


def shown(aid: FindingAid) -> str:
    return aid.search(QUESTION, 1, surfaces=["chunk"])[0].text


def decided(aid: FindingAid) -> list[tuple[str, str]]:
    return [(decision.action, decision.actor) for decision in aid.claims.history()]


def test_it_is_read_as_it_is(release: str, tmp_path: Path, server: OpenAIServer) -> None:
    aid = open_aid(tmp_path)

    assert aid.verify() == []
    assert aid.store.written_by() == release
    assert "one hour" in shown(aid)
    assert "one hour" in str(aid.answer(QUESTION))
    assert aid.search(QUESTION, 1, where="team = 'identity' AND year = 2026")
    assert [found.artifact_id for found in aid.most_referenced()] == ["backups.md"]
    assert aid.summary_node("tokens.md").bullets
    assert decided(aid) == [("approve", "ada"), ("reject", "bob")]
    assert server.requests == []


def test_a_run_pays_for_what_changed_alone(release: str, tmp_path: Path, server: OpenAIServer) -> None:
    (tmp_path / "notes" / "tokens.md").write_text("# Access tokens\n\nAccess tokens expire after two hours.\n")

    report = open_aid(tmp_path).index()

    aid = open_aid(tmp_path)
    assert report.ok
    assert report.repaired == []
    assert len(server.requests) == 1
    assert "two hours" in shown(aid)
    assert len(decided(aid)) == 2
    assert aid.verify() == []
    assert aid.store.written_by() == findingaid.__version__


def test_it_is_rolled_back(release: str, tmp_path: Path) -> None:
    aid = open_aid(tmp_path)

    aid.rollback()

    assert "24 hours" in shown(open_aid(tmp_path))
    assert aid.verify() == []


# -- a release with other schemas ------------------------------------------------------------------------------


def raise_schemas(monkeypatch: pytest.MonkeyPatch, *tables: str) -> None:
    """Give these tables the next version of their schema, as a later release would."""
    for table in tables:
        if table == "records":
            monkeypatch.setattr(schemas, "RECORDS_VERSION", "records-next")
        else:
            schema = schemas.FIXED[table]
            monkeypatch.setitem(
                schemas.FIXED, table, schema.with_metadata({**schema.metadata, schemas.VERSION_KEY: b"next"})
            )


def test_other_schemas_are_made_anew_without_a_paid_call(
    release: str, tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {*schemas.FIXED, "records"} - {*schemas.IRREPLACEABLE, *schemas.CACHES, "leases"}
    raise_schemas(monkeypatch, *tables)

    with pytest.raises(StoreError, match=r"the index has records of schema .* run `findingaid index`"):
        shown(open_aid(tmp_path))
    report = open_aid(tmp_path).index()

    aid = open_aid(tmp_path)
    assert report.ok
    assert set(report.repaired) == {f"table {table} was of another schema and was rebuilt" for table in tables}
    assert server.requests == []
    assert "one hour" in shown(aid)
    assert len(decided(aid)) == 2
    assert aid.verify() == []


def test_another_schema_of_the_caches_pays_again(
    release: str, tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_schemas(monkeypatch, *schemas.CACHES)

    first, second = (open_aid(tmp_path).index() for _ in range(2))

    assert len(first.repaired) == len(schemas.CACHES)
    assert second.repaired == []
    assert len(server.requests) == 2
    assert open_aid(tmp_path).verify() == []


def test_a_version_of_another_schema_is_not_served_again(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_schemas(monkeypatch, "records")
    open_aid(tmp_path).index()

    with pytest.raises(StoreError, match=r"version \d+ has records of schema .*: serve it with the one that wrote it"):
        open_aid(tmp_path).rollback()

    assert "one hour" in shown(open_aid(tmp_path))


def test_another_schema_of_the_decisions_is_refused(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_schemas(monkeypatch, "decisions")

    with pytest.raises(StoreError, match=r"table decisions of .* is of another schema, and its content cannot be"):
        open_aid(tmp_path).index()

    assert len(decided(open_aid(tmp_path))) == 2
