"""findingaid.yaml and the environment -> typed settings, and from them the objects they name.

Order of precedence, highest first: overrides given in code or by `--set key=value`, environment variables
(FINDINGAID__EMBEDDER__KIND=hash sets embedder.kind), the file. Values are YAML, as in the file; keys and those of
storage_options and default_headers are taken as they are, since a password may look like anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Secret,
    SecretStr,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from findingaid.claims.eligible import BY_DEFAULT, ReviewPolicy, Trusting
from findingaid.claims.extraction import CLAIM_EXTRACTORS
from findingaid.claims.model import Tier
from findingaid.edges import extractor_from
from findingaid.embedding import EMBEDDERS
from findingaid.embedding.tokens import EMBEDDER, Count, counter
from findingaid.errors import ConfigError, brief
from findingaid.evaluation import measure_name
from findingaid.model import (
    SYNOPSIS,
    Answerer,
    Claiming,
    Corpus,
    Embedder,
    NodeProducer,
    Quality,
    Reranker,
    Rewriter,
    Selector,
    Strategy,
    Synthesizer,
)
from findingaid.registry import UNSHOWN, Registry, one_line
from findingaid.sources import SOURCES
from findingaid.sources.addresses import Address
from findingaid.spending import Budget, Price
from findingaid.store.lexical import Language, Lexical
from findingaid.strategies import STRATEGIES, bound
from findingaid.summaries import Summarizer
from findingaid.synopses import WithSynopsis
from findingaid.synthesis import SUMMARIZERS, SYNTHESIZERS

T = TypeVar("T")

FILE_NAME = "findingaid.yaml"
FILE_VARIABLE = "FINDINGAID_CONFIG"
PREFIX = "FINDINGAID__"
EVALUATIONS = Path(".findingaid") / "evaluations"


def _sealed(value: Any) -> Any:
    """A spec in which keys, options of storage, and URLs with a password in them are shown to nobody."""
    if isinstance(value, dict):
        return {key: Secret[Any](within) if key in UNSHOWN else _sealed(within) for key, within in value.items()}
    if isinstance(value, list):
        return [_sealed(within) for within in value]
    return Secret[Any](value) if isinstance(value, str) and any(Address(value).secrets()) else value


def _unsealed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unsealed(within) for key, within in value.items()}
    if isinstance(value, list):
        return [_unsealed(within) for within in value]
    return value.get_secret_value() if isinstance(value, Secret) else value


Spec = Annotated[dict[str, Any], AfterValidator(_sealed)]

RERANKERS: Registry[Reranker] = Registry(
    "reranker",
    "kind",
    {
        "cross-encoder": "findingaid.query.rerank:CrossEncoderReranker",
        "endpoint": "findingaid.query.rerank:EndpointReranker",
    },
)
SELECTORS: Registry[Selector] = Registry(
    "selector",
    "kind",
    {
        "conservative": "findingaid.query.select:Conservative",
        "gap": "findingaid.query.select:Gap",
        "openai": "findingaid.query.select:OpenAISelector",
        "threshold": "findingaid.query.select:Threshold",
    },
)
NODE_PRODUCERS: Registry[NodeProducer] = Registry(
    "node producer",
    "kind",
    {"extractive": "findingaid.claims.nodes:ExtractiveNodes", "openai": "findingaid.claims.openai_nodes:OpenAINodes"},
)
REWRITERS: Registry[Rewriter] = Registry("rewriter", "kind", {"openai": "findingaid.query.rewrite:OpenAIRewriter"})
ANSWERERS: Registry[Answerer] = Registry("answerer", "kind", {"openai": "findingaid.query.writing:OpenAIAnswerer"})


def _plain_name(name: str) -> str:
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise ValueError(f"a corpus name is letters, digits and _, since it becomes a Dagster asset key; got {name!r}")
    return name


CorpusName = Annotated[str, AfterValidator(_plain_name)]


def _cron(text: str) -> str:
    if len(text.split()) != 5:
        raise ValueError(f"a schedule is five fields of cron, such as '0 3 * * *'; got {text!r}")
    return text


CronText = Annotated[str, AfterValidator(_cron)]


Owner = Annotated[str, StringConstraints(pattern=r"^(team:\w+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]
GroupName = Annotated[str, StringConstraints(pattern=r"^\w+$")]
TagText = Annotated[str, StringConstraints(pattern=r"^[\w.-]{0,63}$")]


def _texts(options: object) -> dict[str, SecretStr]:
    """Lance takes texts only. An empty one is none, so that an empty variable can stand for a default."""
    if not isinstance(options, dict):
        raise ValueError("expected names and values, as in {endpoint: ..., region: ...}")  # noqa: TRY004  # for pydantic
    if wrong := [name for name, value in options.items() if isinstance(value, dict | list)]:
        raise ValueError(f"{wrong[0]} must be a text, a number or true or false")
    plain = {str(name): _plain(value) for name, value in options.items()}
    return {name: SecretStr(value) for name, value in plain.items() if value}


def _plain(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


StorageOptions = Annotated[dict[str, SecretStr], BeforeValidator(_texts)]


class SynopsisSettings(BaseModel):
    """What is said of a corpus's synopses; the keys mean what the parameters of `with_synopsis` do."""

    model_config = ConfigDict(extra="forbid")
    synthesizer: Spec | None = None
    when: str = "always"
    kind: str = Field(default=SYNOPSIS, min_length=1)
    fields: list[str] = Field(default_factory=list)
    fallback: Spec | None = None
    context: bool = False


def _synopsis(said: object) -> object:
    """`true` stands for all defaults."""
    if not isinstance(said, bool | dict | SynopsisSettings | None):
        raise ValueError(f"expected true, false or keys and values, got {said!r}")  # noqa: TRY004  # for pydantic
    return {} if said is True else None if said is False else said


def _kind(said: object) -> object:
    """A kind alone stands for it with all defaults, `true` for the one that needs no model."""
    if not isinstance(said, bool | str | dict | None):
        raise ValueError(f"expected true, false, a kind or keys and values, got {said!r}")  # noqa: TRY004  # for pydantic
    return {"kind": "extractive"} if said is True else {"kind": said} if isinstance(said, str) else said or None


NEAR: TypeAdapter[float | None] = TypeAdapter(Annotated[float, Field(gt=0, le=1)] | None)
AT_LEAST: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1)])

WantedSpec = Annotated[Spec | None, BeforeValidator(_kind)]


class BudgetSettings(BaseModel):
    """The most that one run may use of synthesizers."""

    model_config = ConfigDict(extra="forbid")
    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    money: float | None = Field(default=None, ge=0)


class PriceSettings(BaseModel):
    """What a model costs, a million tokens."""

    model_config = ConfigDict(extra="forbid")
    input: float = Field(ge=0)
    output: float = Field(ge=0)


class LexicalSettings(BaseModel):
    """How full-text search takes words."""

    model_config = ConfigDict(extra="forbid")
    language: Language = "English"
    stem: bool = True
    stop_words: bool | list[str] = True

    @property
    def settings(self) -> Lexical:
        listed = self.stop_words
        return Lexical(self.language, self.stem, tuple(listed) if isinstance(listed, list) else listed)


def _metric(text: str) -> str:
    try:
        return measure_name(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None


class QualitySettings(BaseModel):
    """Cases, and what is to come of them before anything is published."""

    model_config = ConfigDict(extra="forbid")
    cases: str
    floor: float = Field(ge=0, le=1)
    metric: Annotated[str, AfterValidator(_metric)] = "nDCG@10"


class CorpusSettings(BaseModel):
    """One corpus as configured."""

    model_config = ConfigDict(extra="forbid")
    source: Spec
    strategy: Spec = Field(default_factory=lambda: {"name": "Chunked"})
    synopsis: Annotated[SynopsisSettings | None, BeforeValidator(_synopsis)] = None
    edges: bool | Spec | list[Spec] = True
    max_loss: float = Field(default=0.5, ge=0, le=1)
    max_failures: float = Field(default=0.5, ge=0, le=1)
    schedule: CronText | None = None
    owners: list[Owner] = Field(default_factory=list)
    group: GroupName | None = None
    tags: dict[TagText, TagText] = Field(default_factory=dict)
    quality: QualitySettings | None = None
    claims: WantedSpec = None
    summary_nodes: WantedSpec = None


def _spec(said: object) -> object:
    """A kind alone stands for it with all defaults."""
    return {"kind": said} if isinstance(said, str) else said


KindSpec = Annotated[Spec | None, BeforeValidator(_spec)]


class SearchSettings(BaseModel):
    """What every search does that does not say otherwise."""

    model_config = ConfigDict(extra="forbid")
    rewrite: KindSpec = None
    rerank: KindSpec = None
    rerank_depth: int = Field(default=50, ge=1)
    select: KindSpec = None
    expand: Literal["section", "artifact"] | Annotated[int, Field(ge=0)] | None = None


class ReviewSettings(BaseModel):
    """Which claims are shown and cited: what needs no person to approve it, and whose word is enough."""

    model_config = ConfigDict(extra="forbid")
    approve: Trusting = "verbatim"
    answer_from: list[Tier] = Field(default_factory=lambda: list(BY_DEFAULT.answer_from), min_length=1)

    @property
    def policy(self) -> ReviewPolicy:
        return ReviewPolicy(self.approve, tuple(self.answer_from))


@dataclass(frozen=True)
class SearchDefaults:
    """What `SearchSettings` name."""

    rewrite: Rewriter | None = None
    rerank: Reranker | None = None
    rerank_depth: int = 50
    select: Selector | None = None
    expand: int | str | None = None


class ContextSettings(BaseModel):
    """How context packs are counted, and who writes of what did not fit."""

    model_config = ConfigDict(extra="forbid")
    tokenizer: Annotated[str, Field(min_length=1)] = EMBEDDER
    summarizer: KindSpec = None


@dataclass(frozen=True)
class ContextDefaults:
    """What `ContextSettings` name; without a `count` it is the embedder's."""

    tokenizer: str = EMBEDDER
    count: Count | None = None
    summarizer: Summarizer | None = None


class ServeSettings(BaseModel):
    """How the index is served: who may ask, where, and how much."""

    model_config = ConfigDict(extra="forbid")
    corpora: list[CorpusName] | None = Field(default=None, min_length=1)
    """The corpora that may be asked, by default all; nothing else is shown, counted or named."""

    read_only: bool = True
    """Whether nobody can propose claims."""

    host: str = "127.0.0.1"
    port: int = Field(default=8077, ge=0, le=65535)
    token_env: str | None = None
    """The variable that holds the bearer token. Needed wherever other machines can reach `host`."""

    timeout: float = Field(default=30, gt=0)
    """Seconds within which a request is answered."""

    at_once: int = Field(default=8, ge=1)
    waiting: int = Field(default=64, ge=0)
    """Requests that are worked on, and that wait for it; others are told to come back."""

    body_bytes: int = Field(default=1_000_000, ge=1)
    query_bytes: int = Field(default=8_000, ge=1)
    result_chars: int = Field(default=40_000, ge=1_000)
    """Characters of one result over MCP, some 10,000 tokens; longer ones are shortened, and say so."""

    dagster_url: str | None = None
    """Where Dagster's UI is, which the search page links to."""

    @property
    def token(self) -> str | None:
        """The bearer token. Raises ConfigError where its variable is not set."""
        if self.token_env is None:
            return None
        token = os.environ.get(self.token_env, "").strip()
        if not token:
            raise ConfigError(f"serve.token_env: ${self.token_env} is not set")
        return token


class Settings(BaseModel):
    """The whole of findingaid.yaml."""

    model_config = ConfigDict(extra="forbid")
    store: str = ".findingaid/index"
    storage_options: StorageOptions = Field(default_factory=dict)
    retain: int = Field(default=1, ge=1)
    embedder: Spec = Field(default_factory=lambda: {"kind": "sentence-transformers"})
    synthesizer: Spec = Field(default_factory=lambda: {"kind": "extractive"})
    lexical: LexicalSettings = Field(default_factory=LexicalSettings)
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    prices: dict[str, PriceSettings] = Field(default_factory=dict)
    search: SearchSettings = Field(default_factory=SearchSettings)
    answer: KindSpec = None
    """Who writes answers where a model is asked for."""

    context: ContextSettings = Field(default_factory=ContextSettings)
    review: ReviewSettings = Field(default_factory=ReviewSettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)
    executor: dict[str, Any] = Field(default_factory=lambda: {"kind": "in_process"})
    """What runs the steps of Dagster's runs; read by the code location, not by this library."""

    quality: QualitySettings | None = None
    """For every corpus that has none of its own: its part of cases that are put to all corpora."""

    corpora: dict[CorpusName, CorpusSettings]


@dataclass(frozen=True)
class Config:
    """Validated settings and the folder that their paths are relative to."""

    settings: Settings
    base: Path

    @property
    def store(self) -> str:
        """The store's URI, or its absolute path."""
        uri = self.settings.store.removeprefix("file://")
        return uri if "://" in uri else str((self.base / Path(uri).expanduser()).resolve())

    @property
    def storage_options(self) -> dict[str, str]:
        """What Lance is told of the object storage, secrets included."""
        return {name: value.get_secret_value() for name, value in self.settings.storage_options.items()}

    @property
    def evaluations(self) -> Path:
        """The folder where evaluations keep what they need not do again."""
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

    @cached_property
    def search(self) -> SearchDefaults:
        """What every search does that does not say otherwise."""
        said = self.settings.search
        return SearchDefaults(
            self._made(REWRITERS, said.rewrite, "search.rewrite"),
            self._made(RERANKERS, said.rerank, "search.rerank"),
            said.rerank_depth,
            self._made(SELECTORS, said.select, "search.select"),
            said.expand,
        )

    @cached_property
    def answerer(self) -> Answerer | None:
        """Who writes answers where a model is asked for, if anybody."""
        return self._made(ANSWERERS, self.settings.answer, "answer")

    @cached_property
    def context(self) -> ContextDefaults:
        """How context packs are counted, and who writes of what did not fit."""
        said = self.settings.context
        return ContextDefaults(
            said.tokenizer,
            None if said.tokenizer == EMBEDDER else counter(said.tokenizer, self.embedder, self.base),
            self._made(SUMMARIZERS, said.summarizer, "context.summarizer"),
        )

    def _made(self, registry: Registry[T], spec: Mapping[str, Any] | None, where: str) -> T | None:
        """The member that a spec names, if there is one. Raises ConfigError."""
        return None if spec is None else registry.create(_unsealed(spec), where, self.base)

    @cached_property
    def corpora(self) -> dict[str, Corpus]:
        return {name: self._corpus(name, settings) for name, settings in self.settings.corpora.items()}

    def _corpus(self, name: str, settings: CorpusSettings) -> Corpus:
        where = f"corpora.{name}"
        try:
            strategy = self._strategy(settings, where)
            # A bound strategy knows what the model can see; that asks for its tokenizer, not its weights.
            counting = bound(strategy, self.embedder)
        except ConfigError as error:
            raise ConfigError(str(error) if str(error).startswith(where) else f"{where}.{error}") from None
        return Corpus(
            name,
            SOURCES.create(_unsealed(settings.source), f"{where}.source", self.base),
            counting,
            settings.max_loss,
            settings.max_failures,
            settings.schedule,
            settings.owners,
            settings.group,
            settings.tags,
            extractor_from(_unsealed(settings.edges), f"{where}.edges", self.base),
            self._quality(settings),
            self._claims(settings, where),
        )

    def _claims(self, settings: CorpusSettings, where: str) -> Claiming | None:
        """What is to come of the claims of a corpus; the keys that are not of who finds or writes are `Claiming`'s."""
        if settings.claims is None:
            if settings.summary_nodes is not None:
                raise ConfigError(f"{where}.summary_nodes: are written over claims: set {where}.claims too")
            return None
        claims, nodes = _unsealed(settings.claims), _unsealed(settings.summary_nodes) or {}
        near = _own(claims, "near", Claiming.near, NEAR, f"{where}.claims")
        at_least = _own(nodes, "at_least", Claiming.at_least, AT_LEAST, f"{where}.summary_nodes")
        extractor = CLAIM_EXTRACTORS.create({"kind": "extractive", **claims}, f"{where}.claims", self.base)
        if settings.summary_nodes is None:
            return Claiming(extractor, near)
        producer = NODE_PRODUCERS.create({"kind": "extractive", **nodes}, f"{where}.summary_nodes", self.base)
        return Claiming(extractor, near, producer, at_least)

    def _quality(self, settings: CorpusSettings) -> Quality | None:
        """The floor of a corpus: its own, or that of all."""
        if said := settings.quality or self.settings.quality:
            cases = str((self.base / Path(said.cases).expanduser()).resolve())
            return Quality(cases, said.floor, said.metric, everywhere=settings.quality is None)
        return None

    def _strategy(self, settings: CorpusSettings, where: str) -> Strategy:
        """What cuts a corpus, with what `synopsis` adds."""
        strategy = STRATEGIES.create(_unsealed(settings.strategy), f"{where}.strategy")
        if settings.synopsis is None:
            return strategy
        if isinstance(strategy, WithSynopsis):
            raise ConfigError(f"{where}.synopsis: the strategy is with_synopsis already: keep one")
        said = {"synthesizer": self.synthesizer} | _unsealed(settings.synopsis.model_dump(exclude_defaults=True))
        return STRATEGIES.create({"name": "WithSynopsis", "inner": strategy, **said}, f"{where}.synopsis", self.base)


def _own(spec: dict[str, Any], key: str, default: T, kind: TypeAdapter[T], where: str) -> T:
    """Take a key that is the corpus's own out of the spec of a member. Raises ConfigError."""
    if key not in spec:
        return default
    try:
        return kind.validate_python(spec.pop(key))
    except ValidationError as error:
        raise ConfigError(one_line(error, f"{where}.{key}", [])) from None


def load(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read and check a configuration. Raises ConfigError with one line that names the key.

    Without a path: $FINDINGAID_CONFIG, else findingaid.yaml in this folder. `overrides` maps dotted keys
    to values, {"embedder.kind": "hash"}.
    """
    file = Path(path or os.environ.get(FILE_VARIABLE) or FILE_NAME)
    settings = _read(file)
    for key, value in [*_environment(), *(overrides or {}).items()]:
        _set(settings, key, value)
    try:
        config = Config(Settings.model_validate(settings), file.resolve().parent)
    except ValidationError as error:
        raise ConfigError(f"{file}: {_known_keys(error)}") from None
    try:
        config.synthesizer, config.corpora, config.search, config.context, config.answerer  # noqa: B018  # builds every object, so that a wrong one is named now
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    return config


def parse_override(text: str) -> tuple[str, Any]:
    """`key=value` -> (key, value as YAML). Raises ConfigError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set wants key=value, got {text!r}")
    return key, _value(key, value, f"--set {key}")


def parse_part(text: str, where: str) -> Any:
    """A kind, keys and values as YAML, or `none`. Raises ConfigError."""
    if not text.strip():
        raise ConfigError(f"{where}: is empty: name a kind, or none")
    value = _value("", text, where)
    return False if value is None or value == "none" else value


def _read(file: Path) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"no configuration at {file}: write one, or name it by --config or ${FILE_VARIABLE}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{file}{place}: not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: expected keys and values. Known: {', '.join(Settings.model_fields)}")
    return settings


def _environment() -> Iterator[tuple[str, Any]]:
    for variable, text in sorted(os.environ.items()):
        if variable.startswith(PREFIX):
            key = variable.removeprefix(PREFIX).replace("__", ".").lower()
            yield key, _value(key, text, f"${variable}")


def _value(key: str, text: str, where: str) -> Any:
    """A setting from outside the file."""
    *folders, last = key.split(".")
    if last == "api_key" or not UNSHOWN.isdisjoint(folders):
        return text
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        shown = "this" if last in UNSHOWN else brief(text)
        raise ConfigError(f"{where}: {shown} is not YAML") from None


def _set(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; a key of the environment, always lower case, finds the one that differs only in case."""
    *folders, last = key.split(".")
    for folder in folders:
        nested = settings.setdefault(_existing(settings, folder), {})
        if not isinstance(nested, dict):
            raise ConfigError(f"{key}: {folder} has a value of its own, it is not a group of keys")
        settings = nested
    settings[_existing(settings, last)] = value


def _existing(settings: dict[str, Any], key: str) -> str:
    return next((k for k in settings if isinstance(k, str) and k.lower() == key), key)


def _known_keys(error: ValidationError) -> str:
    inside: dict[object, type[BaseModel]] = {
        "corpora": CorpusSettings,
        "search": SearchSettings,
        "context": ContextSettings,
        "serve": ServeSettings,
    }
    return one_line(error, "", list(inside.get(error.errors()[0]["loc"][0], Settings).model_fields))
