"""Building of the objects that validated settings name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Secret, TypeAdapter, ValidationError

from findingaid.claims.extraction import CLAIM_EXTRACTORS
from findingaid.claims.nodes import NODE_PRODUCERS
from findingaid.config.settings import (
    AT_LEAST,
    CONFIDENCE,
    NEAR,
    AccessRuleSettings,
    CorpusSettings,
    RaySettings,
    ScheduleSettings,
    Settings,
    T,
)
from findingaid.corpus import Claiming, Corpus, Partitioning, Quality, Schedule
from findingaid.edges import extractor_from
from findingaid.embedding import EMBEDDERS
from findingaid.embedding.tokens import EMBEDDER, counter
from findingaid.errors import ConfigError, IdentityError, QueryError
from findingaid.indexing.budget import Budget, Price
from findingaid.protocols import Answerer, Embedder, Strategy, Synthesizer, Verifier
from findingaid.query.answers.generation import ANSWERERS
from findingaid.query.answers.verification import VERIFIERS, LexicalVerifier
from findingaid.query.context.pack import ContextDefaults
from findingaid.query.search.components import RERANKERS, REWRITERS, SELECTORS, SearchDefaults
from findingaid.query.search.request import Route
from findingaid.query.search.routing import resolve_route
from findingaid.registry import Registry, one_line
from findingaid.sources import SOURCES, default_strategy
from findingaid.sources.access import AccessRule, AccessRules
from findingaid.strategies.registry import STRATEGIES, bound
from findingaid.strategies.with_synopsis import WithSynopsis
from findingaid.synthesis import SUMMARIZERS, SYNTHESIZERS

EXECUTORS = ("in_process", "multiprocess", "ray")
KNOWN_EXECUTORS = f"{', '.join(EXECUTORS)}, or the import path of an executor, such as dagster_k8s.k8s_job_executor"

EVALUATIONS = Path(".findingaid") / "evaluations"


def _unsealed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unsealed(within) for key, within in value.items()}
    if isinstance(value, list):
        return [_unsealed(within) for within in value]
    return value.get_secret_value() if isinstance(value, Secret) else value


@dataclass(frozen=True)
class Config:
    """Validated settings and the folder that their paths are relative to."""

    settings: Settings
    base: Path
    file: Path | None = None

    @property
    def store(self) -> str:
        """The store's URI, or its absolute path."""
        uri = self.settings.store.removeprefix("file://")
        return uri if "://" in uri else self._path(uri, "store")

    def _path(self, said: str, key: str) -> str:
        """Return the absolute path of a setting. Raises ConfigError for the home of a user that is not known."""
        try:
            return str((self.base / Path(said).expanduser()).resolve())
        except RuntimeError as error:
            raise ConfigError(f"{key}: {said}: {error} Write the whole path") from None

    @property
    def storage_options(self) -> dict[str, str]:
        """Lance's options for the object storage, including secrets."""
        return {name: value.get_secret_value() for name, value in self.settings.storage_options.items()}

    @property
    def evaluations(self) -> Path:
        """The folder where evaluations keep the vectors of queries."""
        return self.base / EVALUATIONS

    @cached_property
    def embedder(self) -> Embedder:
        return EMBEDDERS.create(_unsealed(self.settings.embedder), "embedder")

    @cached_property
    def synthesizer(self) -> Synthesizer:
        return SYNTHESIZERS.create(_unsealed(self.settings.synthesizer), "synthesizer", self.base)

    @property
    def budget(self) -> Budget:
        return Budget(**self.settings.budget.model_dump())

    @property
    def prices(self) -> dict[str, Price]:
        return {model: Price(price.input, price.output) for model, price in self.settings.prices.items()}

    @property
    def ray(self) -> RaySettings | None:
        """The Ray cluster that builds batches, if that is the executor. Raises ConfigError."""
        said = self.settings.executor
        kind = said.get("kind")
        if kind not in EXECUTORS and "." not in str(kind):
            raise ConfigError(f"executor.kind: unknown kind {kind!r}. Known: {KNOWN_EXECUTORS}")
        if kind != "ray":
            return None
        try:
            settings = RaySettings.model_validate(said)
        except ValidationError as error:
            raise ConfigError(one_line(error, "executor", list(RaySettings.model_fields))) from None
        if settings.gpus is None:
            on_gpu = str(self.settings.embedder.get("device")).startswith("cuda")
            return settings.model_copy(update={"gpus": float(on_gpu)})
        return settings

    @cached_property
    def search(self) -> SearchDefaults:
        """Defaults of every search."""
        said = self.settings.search
        return SearchDefaults(
            self._made(REWRITERS, said.rewrite, "search.rewrite"),
            self._made(RERANKERS, said.rerank, "search.rerank"),
            said.rerank_depth,
            self._made(SELECTORS, said.select, "search.select"),
            said.expand,
            said.memory,
            said.blend,
            self._route(said.route),
        )

    @cached_property
    def answerer(self) -> Answerer | None:
        """The answerer for requests that ask for a model, if one is configured."""
        return self._made(ANSWERERS, self.settings.answer, "answer")

    @cached_property
    def verifier(self) -> Verifier | None:
        """The verifier of the sentences that the answerer writes, if one is configured."""
        made = self._made(VERIFIERS, self.settings.verifier, "verifier")
        return replace(made, lexical=self.settings.lexical.settings) if isinstance(made, LexicalVerifier) else made

    @cached_property
    def context(self) -> ContextDefaults:
        """Defaults of context packs: their token counter, and the summarizer of items that did not fit."""
        said = self.settings.context
        return ContextDefaults(
            said.tokenizer,
            None if said.tokenizer == EMBEDDER else counter(said.tokenizer, self.embedder, self.base),
            self._made(SUMMARIZERS, said.summarizer, "context.summarizer"),
        )

    @staticmethod
    def _route(said: str) -> Route | None:
        try:
            return resolve_route(said)
        except QueryError as error:
            raise ConfigError(f"search.route: {error}") from None

    def _made(self, registry: Registry[T], spec: Mapping[str, Any] | None, where: str) -> T | None:
        """Create the component that a spec names; return None without a spec. Raises ConfigError."""
        return None if spec is None else registry.create(_unsealed(spec), where, self.base)

    @cached_property
    def corpora(self) -> dict[str, Corpus]:
        return {name: self._corpus(name, settings) for name, settings in self.settings.corpora.items()}

    def _corpus(self, name: str, settings: CorpusSettings) -> Corpus:
        where = f"corpora.{name}"
        source = SOURCES.create(_unsealed(settings.source), f"{where}.source", self.base)
        try:
            strategy = self._strategy(settings, default_strategy(source), where)
            # A bound strategy knows the length limit of the model; that loads its tokenizer, not its weights.
            counting = bound(strategy, self.embedder)
        except ConfigError as error:
            raise ConfigError(str(error) if str(error).startswith(where) else f"{where}.{error}") from None
        made = (
            name,
            source,
            counting,
            settings.max_loss,
            settings.max_failures,
            _schedule(settings.schedule),
            _schedule(settings.backfill_schedule),
            settings.owners,
            settings.group,
            settings.tags,
            extractor_from(_unsealed(settings.edges), f"{where}.edges", self.base),
            self._quality(settings),
            self._claims(settings, where),
            settings.deps,
            self.settings.dagster.key_prefix,
            Partitioning(**settings.partitions.model_dump()),
            settings.url,
            _access(settings.access, where),
        )
        try:
            return Corpus(*made)
        except IdentityError as error:
            raise ConfigError(f"{where}: {error}") from None

    def _claims(self, settings: CorpusSettings, where: str) -> Claiming | None:
        """Build the claims settings of a corpus; None if it has none.

        The keys `near`, `at_least` and `min_confidence` belong to `Claiming`, all others to the extractor and the
        node producer.
        """
        if settings.claims is None:
            if settings.summary_nodes is not None:
                raise ConfigError(f"{where}.summary_nodes: require claims: set {where}.claims too")
            return None
        claims, nodes = _unsealed(settings.claims), _unsealed(settings.summary_nodes) or {}
        near = _own(claims, "near", Claiming.near, NEAR, f"{where}.claims")
        at_least = _own(nodes, "at_least", Claiming.at_least, AT_LEAST, f"{where}.summary_nodes")
        least = _own(claims, "min_confidence", Claiming.min_confidence, CONFIDENCE, f"{where}.claims")
        of_node = _own(nodes, "min_confidence", Claiming.min_node_confidence, CONFIDENCE, f"{where}.summary_nodes")
        extractor = CLAIM_EXTRACTORS.create({"kind": "extractive", **claims}, f"{where}.claims", self.base)
        if settings.summary_nodes is None:
            return Claiming(extractor, near, min_confidence=least)
        producer = NODE_PRODUCERS.create({"kind": "extractive", **nodes}, f"{where}.summary_nodes", self.base)
        return Claiming(extractor, near, producer, at_least, least, of_node)

    def _quality(self, settings: CorpusSettings) -> Quality | None:
        """Return the quality floor of a corpus: its own, or the common one, or None."""
        if said := settings.quality or self.settings.quality:
            cases = self._path(said.cases, "quality.cases")
            return Quality(cases, said.floor, said.metric, everywhere=settings.quality is None)
        return None

    def _strategy(self, settings: CorpusSettings, default: Mapping[str, Any], where: str) -> Strategy:
        """Create the strategy of a corpus, wrapped in `WithSynopsis` if `synopsis` is set."""
        said = _unsealed(settings.strategy) or {}
        strategy = STRATEGIES.create(said if "name" in said else {**default, **said}, f"{where}.strategy")
        if settings.synopsis is None:
            return strategy
        if isinstance(strategy, WithSynopsis):
            raise ConfigError(f"{where}.synopsis: the strategy is already with_synopsis: remove one of the two")
        synopsis = {"synthesizer": self.synthesizer} | _unsealed(settings.synopsis.model_dump(exclude_defaults=True))
        return STRATEGIES.create(
            {"name": "WithSynopsis", "inner": strategy, **synopsis}, f"{where}.synopsis", self.base
        )


def _own(spec: dict[str, Any], key: str, default: T, kind: TypeAdapter[T], where: str) -> T:
    """Remove a key of the corpus itself from the spec of a component; return its value, or `default`.

    Raises ConfigError when the value is invalid.
    """
    if key not in spec:
        return default
    try:
        return kind.validate_python(spec.pop(key))
    except ValidationError as error:
        raise ConfigError(one_line(error, f"{where}.{key}", [])) from None


def _access(rules: Sequence[AccessRuleSettings] | None, where: str) -> AccessRules | None:
    if rules is None:
        return None
    try:
        return AccessRules([AccessRule(**rule.model_dump()) for rule in rules])
    except ConfigError as error:
        raise ConfigError(f"{where}.access: {error}") from None


def _schedule(settings: ScheduleSettings | None) -> Schedule | None:
    return Schedule(**settings.model_dump()) if settings else None
