"""Data frames of results, for which pandas is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from findingaid.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd


def to_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Convert rows to a data frame; a nested mapping becomes columns such as "calls.embed".

    Raises ConfigError without pandas.
    """
    require_pandas()
    import pandas as pd

    return pd.json_normalize(list(rows))


def require_pandas() -> None:
    """Raise ConfigError, which names the extra, if pandas is not installed."""
    try:
        import pandas as pd  # noqa: F401
    except ImportError:
        raise ConfigError("to_pandas: needs pandas: pip install 'findingaid[pandas]'") from None
