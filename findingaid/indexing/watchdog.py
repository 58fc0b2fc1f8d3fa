"""Warnings about an artifact that holds up a run, logged while it does."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from findingaid.sources.patterns import pattern_of

LOGGER = logging.getLogger("findingaid")

HELD_UP_SECONDS = 10.0
"""Seconds after which an artifact is named."""


@dataclass
class Watch:
    """Context manager that names the current artifact in the log once it has taken HELD_UP_SECONDS.

    `excludes` tells whether the corpus's source has `exclude` patterns.
    """

    corpus: str
    excludes: bool
    _current: tuple[str, str, float] | None = None
    _done: threading.Event = field(default_factory=threading.Event)

    def at(self, stage: str, artifact_id: str) -> None:
        """Record the artifact and the stage that are worked on now."""
        self._current = (stage, artifact_id, time.monotonic())

    def __enter__(self) -> Self:
        threading.Thread(target=self._look, name="findingaid-watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()

    def _look(self) -> None:
        warned = None
        while not self._done.wait(HELD_UP_SECONDS / 10):
            current = self._current
            if current and current != warned and time.monotonic() - current[2] > HELD_UP_SECONDS:
                LOGGER.warning("%s", self._told(*current[:2]))
                warned = current

    def _told(self, stage: str, artifact_id: str) -> str:
        remedy = "remove it from the source"
        if self.excludes:
            remedy = f"add to corpora.{self.corpus}.source:  exclude: [{json.dumps(pattern_of(artifact_id))}]"
        name = json.dumps(artifact_id, ensure_ascii=not artifact_id.isprintable())
        return f"{self.corpus}: {name} takes over {HELD_UP_SECONDS:g} s at {stage}; to leave it out, {remedy}"
