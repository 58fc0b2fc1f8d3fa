"""Options for building artifacts, and the callback that reports progress."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from findingaid.model import EDGES, INPUTS, Stage

Progress = Callable[[str, int, int], None]
"""Callback with a stage, the number of artifacts or texts added to its total, and the number of them newly done."""

ALL_STAGES = tuple(Stage)


@dataclass(frozen=True)
class BuildOptions:
    """Options for building artifacts.

    `force` redoes the stages `forced` even if they are current, with cached results of models; with `pay_again` their
    models are called again. With `pay` false no model is called.
    """

    stages: Collection[Stage] = ALL_STAGES
    force: bool = False
    pay: bool = True
    pay_again: bool = False
    forced: Collection[Stage] = ALL_STAGES
    progress: Progress | None = None

    def pays(self, stage: Stage) -> bool:
        """Return whether a stage may call a model for results that are not cached."""
        return self.pay and stage in self.stages

    def repays(self, stage: Stage) -> bool:
        """Return whether a stage must call the model even for cached results."""
        return self.redoes(stage) and self.pay_again and self.pays(stage)

    def redoes(self, part: str) -> bool:
        """Return whether a part is written again even if it is current; edges are redone together with surfaces."""
        return self.force and (Stage.SURFACES if part == EDGES else part) in self.forced

    def needs(self, stage: Stage) -> bool:
        """Check whether a stage is not requested itself, but is an input of a requested stage."""
        return self.pay and stage not in self.stages and any(stage in INPUTS[later] for later in self.stages)


ALL_STALE = BuildOptions()
"""Options that bring artifacts up to date in all stages."""
