"""Versions of the assets of others that the assets of a corpus are made from, for the events that name them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import dagster as dg

from findingaid.corpus import Corpus
from findingaid.model import Stage
from findingaid_dagster.assets.keys import PUBLISHED, asset_key, inputs_of, partitions_of
from findingaid_dagster.assets.specs import upstream_of
from findingaid_dagster.internals.events import (
    UNKNOWN_VERSION,
    current_data_versions,
    event_pointer,
    latest_materializations,
    spec_inputs,
    spec_partitions,
)

INPUT = "dagster/input_data_version/"
POINTER = "dagster/input_event_pointer/"


@dataclass(frozen=True)
class InputVersion:
    """Data version of an asset that others are made from, and the highest event id at that time.

    An asset with the partitions of the corpus has one `by_partition`, too: Dagster compares them one by one.
    """

    data_version: str
    pointer: int = field(compare=False)
    by_partition: Mapping[str, str] | None = field(default=None, compare=False)

    def of(self, partition: str) -> InputVersion:
        """Return the version that a partition of the corpus is made from."""
        if self.by_partition is None:
            return self
        return InputVersion(self.by_partition.get(partition, UNKNOWN_VERSION), self.pointer)


Inputs = Mapping[str, InputVersion]
"""Assets of others, and the versions of them that an asset of a corpus was made from."""


def input_tags(inputs: Inputs) -> dict[str, str]:
    """Return the tags by which an event names its inputs."""
    versions = {f"{INPUT}{asset}": found.data_version for asset, found in inputs.items()}
    return {**versions, **{f"{POINTER}{asset}": str(found.pointer) for asset, found in inputs.items()}}


def input_versions(context: dg.OpExecutionContext, of: Corpus, parts: Collection[str]) -> dict[str, Inputs]:
    """Map these parts of a corpus, stages or PUBLISHED, to the current versions of the assets of others they need.

    They are those of the configuration, which are inputs of the published records, and those that the code location
    adds to a spec. Without its version in each event, Dagster would call an input new, and the asset stale, for ever.
    """
    added = {part: _inputs_of_others(context, of, part) for part in parts}
    pointer = event_pointer(context.instance)
    versions = {key: _current_version(context, of, key, pointer) for key in set().union(*added.values())}
    return {part: {key.to_user_string(): versions[key] for key in sorted(keys)} for part, keys in added.items()}


def _current_version(context: dg.OpExecutionContext, of: Corpus, asset: dg.AssetKey, pointer: int) -> InputVersion:
    version, by_partition = current_data_versions(context.instance, asset)
    shared = spec_partitions(context, asset) == partitions_of(of.name)
    return InputVersion(version, pointer, by_partition if shared else None)


def _inputs_of_others(context: dg.OpExecutionContext, of: Corpus, part: str) -> set[dg.AssetKey]:
    found = spec_inputs(context, asset_key(of, part))
    if part == PUBLISHED:
        return {*upstream_of(of), *found} - {asset_key(of, Stage.RECORDS)}
    return found.difference(inputs_of(of, Stage(part)))


def inputs_at(inputs: Inputs, partition: str) -> Inputs:
    """Return the versions that a partition of the corpus is made from."""
    return {asset: found.of(partition) for asset, found in inputs.items()}


def logged_inputs(event: dg.AssetMaterialization, own: Collection[dg.AssetKey]) -> dict[str, InputVersion]:
    """Return the inputs that an event names, besides its `own` of the corpus."""
    tags, ours = event.tags or {}, {key.to_user_string() for key in own}
    versions = {name.removeprefix(INPUT): found for name, found in tags.items() if name.startswith(INPUT)}
    return {x: InputVersion(found, int(tags[f"{POINTER}{x}"])) for x, found in versions.items() if x not in ours}


def latest_inputs(inputs: Inputs, logged: Inputs) -> Inputs:
    """Return the inputs that a run found, each in the version that an event names if that was found later.

    Of two runs at once, the one that listed the source first may end last.
    """
    return {asset: max(found, logged.get(asset, found), key=lambda x: x.pointer) for asset, found in inputs.items()}


def made_from_others(instance: dg.DagsterInstance, of: Corpus, stage: Stage, inputs: Inputs) -> set[str]:
    """Return the partitions whose latest event of a stage names other inputs of others than these, or other versions.

    The events are read only if there are such inputs now, or in the last event of all.
    """
    asset, own = asset_key(of, stage), inputs_of(of, stage)
    last = instance.get_latest_materialization_event(asset)
    event = last.asset_materialization if last else None
    if not inputs and not (event and logged_inputs(event, own)):
        return set()
    logged = {key: logged_inputs(event, own) for key, event in latest_materializations(instance, asset)}
    return {key for key, found in logged.items() if latest_inputs(inputs_at(inputs, key), found) != found}
