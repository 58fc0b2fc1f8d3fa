"""Corpora: named collections and the settings of their stages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote

from findingaid.errors import UnknownCorpusError, brief
from findingaid.identity.fingerprints import CLAIM_EXTRACTOR, EDGE_EXTRACTOR, NODE_PRODUCER, STRATEGY, check_id
from findingaid.model import Stage
from findingaid.protocols import Access, ClaimExtractor, EdgeExtractor, NodeProducer, Source, Strategy


@dataclass(frozen=True)
class Claiming:
    """Settings for the claims and summary nodes of a corpus.

    Two claims of an artifact are near repeats if they have the same words, apart from those that say little, and
    vectors with a cosine of `near` or more. Of these only the first is kept; with None only equal claims are dropped.
    `nodes` writes a summary node for each artifact that has `at_least` so many claims which are not retracted.

    A claim whose extractor gives it less than `min_confidence` is refused, and so is a node of less than
    `min_node_confidence`.
    """

    extractor: ClaimExtractor
    near: float | None = 0.95
    nodes: NodeProducer | None = None
    at_least: int = 5
    min_confidence: float = 0.0
    min_node_confidence: float = 0.7


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality floor: nothing is published if the mean of `metric` over the cases of a file is below `floor`.

    `cases` is the path of the file. The cases search this corpus alone, or all corpora with `everywhere`. Only cases
    that expect something of this corpus count.
    """

    cases: str
    floor: float
    metric: str = "nDCG@10"
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times of a corpus in a scheduler: five cron fields in a time zone, and the status before anyone changes it."""

    cron: str
    timezone: str = "UTC"
    default_status: str = "STOPPED"


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a scheduler divides a corpus: a partition per artifact, or hash buckets above `limit` artifacts.

    If `by` is "bucket", always in hash buckets.
    """

    by: Literal["artifact", "bucket"] = "artifact"
    buckets: int = 1024
    limit: int = 20_000

    def buckets_for(self, artifacts: int) -> int:
        """Return the number of buckets for so many artifacts; 0 means a partition per artifact."""
        return self.buckets if self.by == "bucket" or artifacts > self.limit else 0


@dataclass(frozen=True)
class Corpus:
    """A named collection: its source, and the settings of its stages.

    The strategy also decides about synopses, see `with_synopsis`. `edges` extracts references between artifacts, and
    `claims` configures claim extraction; None turns either off.

    `max_loss` is a share of the known artifacts: a run that would lose more of them is refused. Nothing is published
    if more than the share `max_failures` of the artifacts failed, or if a search for known questions scores below
    `quality`. `schedule`, `backfill_schedule` and `partitions` are for the scheduler; a schedule of None means never.
    `owners`, `group` and `tags` are shown in a catalogue, `deps` are the assets there that its source is made from, and
    `key_prefix` comes before its name there. `url` is a template of its artifacts' addresses, see `url_of`. Who may
    read its artifacts says `access`; None is everybody. Raises IdentityError if no id can be made of a part.
    """

    name: str
    source: Source
    strategy: Strategy
    max_loss: float = 0.5
    max_failures: float = 0.5
    schedule: Schedule | None = None
    backfill_schedule: Schedule | None = None
    owners: Sequence[str] = ()
    group: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    edges: EdgeExtractor | None = None
    quality: Quality | None = None
    claims: Claiming | None = None
    deps: Sequence[str] = ()
    key_prefix: Sequence[str] = ()
    partitions: Partitioning = Partitioning()
    url: str = ""
    access: Access | None = None

    def __post_init__(self) -> None:
        parts: dict[str, object] = {STRATEGY: self.strategy, EDGE_EXTRACTOR: self.edges}
        if self.claims:
            parts |= {CLAIM_EXTRACTOR: self.claims.extractor, NODE_PRODUCER: self.claims.nodes}
        for role, part in parts.items():
            if part is not None:
                check_id(part, role)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that the corpus goes through, in order."""
        wanted = {Stage.CLAIMS: self.claims, Stage.SUMMARY_NODES: self.claims and self.claims.nodes}
        return tuple(stage for stage in Stage if wanted.get(stage, self))

    def url_of(self, artifact_id: str) -> str:
        """Return the address of an artifact by the template `url`; "" without one.

        In the template, {artifact_id} is its id and {stem} its id without the suffix, both quoted for a URL.
        """
        stem = os.path.splitext(artifact_id)[0]
        return self.url.format(artifact_id=quote(artifact_id), stem=quote(stem))


URL_FIELDS = frozenset({"artifact_id", "stem"})
"""Names that a template of addresses can use."""


def find_corpus(corpora: Mapping[str, Corpus], name: str) -> Corpus:
    """Return the corpus of this name. Raises UnknownCorpusError."""
    if name not in corpora:
        raise UnknownCorpusError(f"unknown corpus {brief(name)}. Known: {', '.join(corpora) or 'none'}")
    return corpora[name]
