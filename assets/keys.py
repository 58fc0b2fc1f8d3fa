"""Keys of assets and partitions, and dependencies of the stages in Dagster.

A corpus has a partition per artifact or, if it is large, per hash bucket of artifacts. The keys in an instance tell
which, since a corpus that grows past the limit is divided anew only at the end of a run.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import dagster as dg

from findingaid.corpus import Corpus
from findingaid.identity.hashes import text_hash
from findingaid.model import INPUTS, Stage

KEYS_AT_ONCE = 10_000
"""Number of partition keys per statement; SQLite accepts about 32,000 parameters."""

NOT_IN_A_KEY = re.compile(r"[%\x00-\x1f\x7f]|\.\.\.")

BUCKET = re.compile(r"bucket-(\d+)-of-(\d+)")
"""Pattern of the key of a hash bucket, with its number, from 0, and the number of buckets."""

HASH_DIGITS = 8
"""Hexadecimal digits of the hash of an artifact id that decide about its bucket."""


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
    """Return the partitions of a corpus: one key per artifact, or per hash bucket."""
    return dg.DynamicPartitionsDefinition(name=corpus)


def add_partitions(instance: dg.DagsterInstance, corpus: str, keys: Sequence[str]) -> None:
    """Add partitions to a corpus; existing ones are left unchanged."""
    for start in range(0, len(keys), KEYS_AT_ONCE):
        instance.add_dynamic_partitions(corpus, keys[start : start + KEYS_AT_ONCE])


@dataclass(frozen=True, slots=True)
class Keys:
    """Partition keys of a corpus that is divided into so many hash buckets; 0 means a partition per artifact."""

    buckets: int = 0

    def key_of(self, artifact_id: str) -> str:
        """Return the key of the partition that an artifact belongs to."""
        if not self.buckets:
            return partition_key(artifact_id)
        number = int(text_hash(artifact_id)[:HASH_DIGITS], 16) * self.buckets >> 4 * HASH_DIGITS
        return f"bucket-{number:0{len(str(self.buckets))}}-of-{self.buckets}"

    def group(self, artifact_ids: Iterable[str]) -> dict[str, list[str]]:
        """Map the key of each partition to its artifacts; both are sorted."""
        found: dict[str, list[str]] = {}
        for artifact_id in sorted(artifact_ids):
            found.setdefault(self.key_of(artifact_id), []).append(artifact_id)
        return dict(sorted(found.items()))


def keys_of(key: str) -> Keys:
    """Return the division of a corpus that has this partition key."""
    found = BUCKET.fullmatch(key)
    return Keys(int(found[2]) if found else 0)


def keys_in_use(instance: dg.DagsterInstance, of: Corpus, artifacts: int) -> Keys:
    """Return the division of a corpus in the instance; if it has none yet, the one for so many artifacts."""
    for key in instance.get_dynamic_partitions(of.name):
        return keys_of(key)
    return Keys(of.partitions.buckets_for(artifacts))


def select_artifacts(keys: Collection[str], artifact_ids: Iterable[str]) -> list[str]:
    """Return those of the artifacts that belong to partitions with these keys, of single artifacts or of buckets."""
    wanted, divisions = set(keys), {keys_of(key) for key in keys}
    return [i for i in artifact_ids if any(division.key_of(i) in wanted for division in divisions)]


def partition_key(artifact_id: str) -> str:
    """Return the key of an artifact's own partition: its id, with characters that Dagster rejects percent-encoded."""
    key = NOT_IN_A_KEY.sub(lambda found: "".join(f"%{ord(c):02X}" for c in found.group()), artifact_id)
    return f"%{ord(key[0]):02X}{key[1:]}" if BUCKET.fullmatch(key) else key


def artifact_id_of(key: str) -> str:
    """Return the artifact id of the key of its own partition."""
    return unquote(key)
