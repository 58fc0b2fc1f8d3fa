"""Commands start without pandas, and pyarrow knows pandas as soon as somebody imports it."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = (
    "from findingaid.cli.pandas_later import start_without_pandas; start_without_pandas(); import sys, pyarrow as pa; "
)


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True)
    assert not done.stderr
    return done.stdout.strip()


def test_lance_starts_without_pandas() -> None:
    pytest.importorskip("pandas")

    assert printed("import lance; print('pandas' in sys.modules)") == "False"


def test_values_of_pandas_that_is_imported_later_are_converted_as_always() -> None:
    pytest.importorskip("pandas")
    code = (
        "import pandas as pd; words = pd.Series(['a', float('nan'), None]); frame = pd.DataFrame({'n': [1.0, None]});"
        "print(pa.array(words).null_count, pa.array(frame['n']).null_count, pa.Table.from_pandas(frame).num_rows,"
        " pa.table({'n': [1]}).to_pandas().shape)"
    )

    assert printed(code) == "2 1 2 (1, 1)"


def test_libraries_that_ask_whether_there_is_pandas_do_not_count_as_its_import() -> None:
    pytest.importorskip("pandas")
    code = "start_without_pandas(); from importlib.util import find_spec; find_spec('pandas'); import pandas as pd;"

    assert printed(f"{code} print(pa.array(pd.Series([1, None])).null_count)") == "1"


def test_data_frames_of_arrow_tables_need_nothing_else() -> None:
    pytest.importorskip("pandas")

    assert printed("print(pa.table({'n': [1, 2]}).to_pandas()['n'].sum())") == "3"
