"""Contents of a corpus as readers see them."""

from __future__ import annotations

from collections.abc import Callable

from findingaid import FindingAid
from findingaid.store.contents import Changes, Contents, read_contents
from findingaid.testing import MemorySource
from tests.conftest import text_about


def contents(aid: FindingAid) -> Contents:
    return read_contents(aid.store.published(), "docs")


def test_the_digest_is_that_of_the_records_and_changes_are_counted(
    indexed: FindingAid, make_aid: Callable[..., FindingAid], source: MemorySource
) -> None:
    first = contents(make_aid())
    make_aid().index(force=True)
    again = contents(make_aid())
    source.payloads["ledger.md"] = text_about("another")
    source.payloads["new.md"] = text_about("new")
    del source.payloads["reader.md"]
    make_aid().index()
    after = contents(make_aid())

    assert (again.digest, again.records) == (first.digest, first.records)
    assert again.version > first.version
    assert again.since(first) == Changes(0, 0, 0)
    assert after.digest != first.digest
    assert after.since(first) == Changes(new=1, changed=1, deleted=1)
