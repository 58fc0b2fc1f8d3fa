"""The pages on sources list every kind with its parameters and defaults."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields

import pytest

from findingaid.sources import SOURCES
from tests.paths import ROOT

PAGE = "".join((ROOT / "docs" / name).read_text() for name in ("sources.md", "agent-sources.md"))
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
ROWS = re.compile(r"^\| (\w+) \| (.+?) \| .+ \|$", re.MULTILINE)


@pytest.mark.parametrize("kind", SOURCES.known())
def test_the_table_of_a_source_is_its_parameters_in_order_with_their_defaults(kind: str) -> None:
    documented = [row for row in ROWS.findall(SECTIONS[kind]) if row[0] != "key"]
    parameters = fields(SOURCES.member(kind, ""))  # type: ignore[arg-type]  # members are dataclasses

    assert [key for key, _ in documented] == [f.name for f in parameters]
    for (key, default), parameter in zip(documented, parameters, strict=True):
        required = parameter.default is MISSING and parameter.default_factory is MISSING
        assert (default == "required") == required, key
        if isinstance(parameter.default, bool | int | str):
            assert default == str(parameter.default).lower(), key
