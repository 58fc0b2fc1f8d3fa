"""Asset keys, partitions, specs and dependencies of the stages in Dagster."""

import re
from collections.abc import Sequence
from urllib.parse import unquote

import dagster as dg

from findingaid.corpus import Corpus
from findingaid.model import INPUTS, Stage

KEYS_AT_ONCE = 10_000
"""Number of partition keys per statement; SQLite accepts about 32,000 parameters."""

NOT_IN_A_KEY = re.compile(r"[%\x00-\x1f\x7f]|\.\.\.")


SOURCE = "source"
PUBLISHED = "published"
"""Names of the assets of a corpus that are not stages."""


def asset_key(of: Corpus, part: str) -> dg.AssetKey:
    """Return the asset key of a stage of a corpus, of its SOURCE, which is only observed, or of what is PUBLISHED."""
    return dg.AssetKey([*of.key_prefix, of.name, str(part)])


def deps_of(corpus: Corpus, stage: Stage) -> list[Stage]:
    """Return the stages of a corpus that are inputs of this stage."""
    return [dep for dep in INPUTS[stage] if dep in corpus.stages]


def inputs_of(of: Corpus, stage: Stage) -> list[dg.AssetKey]:
    """Return the asset keys of the inputs of a stage; those of its first stage are in its source."""
    return [asset_key(of, dep) for dep in deps_of(of, stage)] or [asset_key(of, SOURCE)]


def partitions_of(corpus: str) -> dg.DynamicPartitionsDefinition:
    """Return the partitions of a corpus: one key per artifact."""
    return dg.DynamicPartitionsDefinition(name=corpus)


def add_partitions(instance: dg.DagsterInstance, corpus: str, keys: Sequence[str]) -> None:
    """Add partitions to a corpus; existing ones are left unchanged."""
    for start in range(0, len(keys), KEYS_AT_ONCE):
        instance.add_dynamic_partitions(corpus, keys[start : start + KEYS_AT_ONCE])


def partition_key(artifact_id: str) -> str:
    """Return an artifact's partition key: its id, with characters that Dagster rejects in a key percent-encoded."""
    return NOT_IN_A_KEY.sub(lambda found: "".join(f"%{ord(c):02X}" for c in found.group()), artifact_id)


def artifact_id_of(key: str) -> str:
    """Return the artifact id of a partition key."""
    return unquote(key)
