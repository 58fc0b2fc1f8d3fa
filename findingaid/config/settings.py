"""Schema of the settings in findingaid.yaml.

Order of precedence, highest first: overrides given in code or by `--set key=value`, environment variables
(FINDINGAID__EMBEDDER__KIND=hash sets embedder.kind), the file. Values are YAML, as in the file. API keys and the values
of storage_options and default_headers are taken as they are, since a password may contain any character.
"""

from __future__ import annotations

import ipaddress
import os
from hashlib import sha256
from string import Formatter
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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
    model_validator,
)

from findingaid.access import Caller, is_principal
from findingaid.claims.eligible import BY_DEFAULT, GATED, ReviewPolicy, Trusting
from findingaid.claims.model import Tier
from findingaid.corpus import URL_FIELDS
from findingaid.embedding.tokens import EMBEDDER
from findingaid.errors import ConfigError, QueryError
from findingaid.metrics import measure_name
from findingaid.model import SYNOPSIS
from findingaid.query.search.components import Blend
from findingaid.registry import UNSHOWN
from findingaid.sources.addresses import Address, credentials_in
from findingaid.text.analyzer import Language, Lexical

T = TypeVar("T")


def _sealed(value: Any) -> Any:
    """Wrap the values of UNSHOWN keys, and URLs with a password, in `Secret`, so that they are never shown."""
    if isinstance(value, dict):
        return {key: Secret[Any](within) if key in UNSHOWN else _sealed(within) for key, within in value.items()}
    if isinstance(value, list):
        return [_sealed(within) for within in value]
    return Secret[Any](value) if isinstance(value, str) and any(Address(value).secrets()) else value


Spec = Annotated[dict[str, Any], AfterValidator(_sealed)]


def _plain_name(name: str) -> str:
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise ValueError(
            f"a corpus name may contain only letters, digits and _, as it becomes a Dagster asset key; got {name!r}"
        )
    return name


CorpusName = Annotated[str, AfterValidator(_plain_name)]


def _cron(text: str) -> str:
    if len(text.split()) != 5:
        raise ValueError(f"a schedule is five fields of cron, such as '0 3 * * *'; got {text!r}")
    return text


CronText = Annotated[str, AfterValidator(_cron)]


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"not a time zone, such as Europe/Vienna; got {name!r}") from None
    return name


class ScheduleSettings(BaseModel):
    """Times at which Dagster indexes or backfills a corpus."""

    model_config = ConfigDict(extra="forbid")
    cron: CronText
    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"
    default_status: Literal["STOPPED", "RUNNING"] = "STOPPED"
    """Whether the schedule is on before anyone switches it on or off."""


def _schedule(said: object) -> object:
    """Convert cron fields alone to a schedule in UTC that is off."""
    return {"cron": said} if isinstance(said, str) else said


ScheduleText = Annotated[ScheduleSettings | None, BeforeValidator(_schedule)]


MOST_BUCKETS = 10_000
"""A tenth of the partitions that Dagster supports for an asset."""


class PartitionSettings(BaseModel):
    """How Dagster divides a corpus: a partition per artifact, or hash buckets above `limit` artifacts."""

    model_config = ConfigDict(extra="forbid")
    by: Literal["artifact", "bucket"] = "artifact"
    buckets: int = Field(default=1024, ge=1, le=MOST_BUCKETS)
    limit: int = Field(default=20_000, ge=0)


def _partitions(said: object) -> object:
    """Convert the kind of partitions alone to settings with all defaults."""
    return {"by": said} if isinstance(said, str) else said


Owner = Annotated[str, StringConstraints(pattern=r"^(team:\w+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]
KeyPart = Annotated[str, StringConstraints(pattern=r"^[^/\s]+$")]
AssetPath = Annotated[str, StringConstraints(pattern=r"^[^/\s]+(/[^/\s]+)*$")]
PoolName = Annotated[str, StringConstraints(pattern=r"^\S+$")]
GroupName = Annotated[str, StringConstraints(pattern=r"^\w+$")]
TagText = Annotated[str, StringConstraints(pattern=r"^[\w.-]{0,63}$")]


def _texts(options: object) -> dict[str, SecretStr]:
    """Convert options to strings, as Lance requires. Drop empty ones, so that an empty variable means the default."""
    if not isinstance(options, dict):
        raise ValueError("expected names and values, as in {endpoint: ..., region: ...}")  # noqa: TRY004  # for pydantic
    if wrong := [name for name, value in options.items() if isinstance(value, dict | list)]:
        raise ValueError(f"{wrong[0]} must be a text, a number or true or false")
    plain = {str(name): _plain(value) for name, value in options.items()}
    return {name: SecretStr(value) for name, value in plain.items() if value}


def _plain(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


StorageOptions = Annotated[dict[str, SecretStr], BeforeValidator(_texts)]


def _without_credentials(uri: str) -> str:
    """Return the URI. Raises ValueError if it contains credentials, which logs and errors would show."""
    if credentials_in(uri):
        raise ValueError("holds credentials in the URI: put them into storage_options, or into the environment")
    return uri


def _context(said: object) -> object:
    if said not in (True, False, "chunk"):
        raise ValueError(f"expected true, false or chunk, got {said!r}")
    return said


class SynopsisSettings(BaseModel):
    """Synopses of a corpus; the keys are the parameters of `with_synopsis`."""

    model_config = ConfigDict(extra="forbid")
    synthesizer: Spec | None = None
    when: str = "always"
    kind: str = Field(default=SYNOPSIS, min_length=1)
    fields: list[str] = Field(default_factory=list)
    fallback: Spec | None = None
    context: Annotated[bool | Literal["chunk"], BeforeValidator(_context)] = False


def _synopsis(said: object) -> object:
    """Convert `true` to a spec with all defaults, and `false` to None."""
    if not isinstance(said, bool | dict | SynopsisSettings | None):
        raise ValueError(f"expected true, false or keys and values, got {said!r}")  # noqa: TRY004  # for pydantic
    return {} if said is True else None if said is False else said


def _kind(said: object) -> object:
    """Convert a kind alone to its spec with all defaults, and `true` to the kind that needs no model."""
    if not isinstance(said, bool | str | dict | None):
        raise ValueError(f"expected true, false, a kind or keys and values, got {said!r}")  # noqa: TRY004  # for pydantic
    return {"kind": "extractive"} if said is True else {"kind": said} if isinstance(said, str) else said or None


NEAR: TypeAdapter[float | None] = TypeAdapter(Annotated[float, Field(gt=0, le=1)] | None)
CONFIDENCE: TypeAdapter[float] = TypeAdapter(Annotated[float, Field(ge=0, le=1)])
AT_LEAST: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1)])

WantedSpec = Annotated[Spec | None, BeforeValidator(_kind)]


class BudgetSettings(BaseModel):
    """Limits on the use of models by one run."""

    model_config = ConfigDict(extra="forbid")
    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    money: float | None = Field(default=None, ge=0)


class PriceSettings(BaseModel):
    """Price of a model per million tokens."""

    model_config = ConfigDict(extra="forbid")
    input: float = Field(ge=0)
    output: float = Field(ge=0)


class LexicalSettings(BaseModel):
    """Word processing of full-text search."""

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
    """Evaluation cases, and the score that they must reach before anything is published."""

    model_config = ConfigDict(extra="forbid")
    cases: str
    floor: float = Field(ge=0, le=1)
    metric: Annotated[str, AfterValidator(_metric)] = "nDCG@10"


def _url_template(text: str) -> str:
    try:
        names = {name for _, name, _, _ in Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise ValueError(f"not a template of addresses: {error}; got {text!r}") from None
    if unknown := names - URL_FIELDS:
        known = ", ".join(f"{{{name}}}" for name in sorted(URL_FIELDS))
        raise ValueError(f"unknown field {{{min(unknown)}}}. Known: {known}")
    if not names or "://" not in text:
        raise ValueError(f"expected an address such as https://docs.example.org/{{stem}}; got {text!r}")
    if credentials_in(text):
        raise ValueError("holds credentials, which every client would see")
    return text


def _principal(text: str) -> str:
    if not is_principal(text):
        raise ValueError(f"expected public, user:NAME or group:NAME, without spaces; got {text!r}")
    return text


Principal = Annotated[str, AfterValidator(_principal)]


class AccessRuleSettings(BaseModel):
    """Who may read the artifacts that a pattern matches, see `findingaid.sources.access`."""

    model_config = ConfigDict(extra="forbid")
    match: str = "**"
    readers: list[Principal] = Field(default_factory=list)
    field: Annotated[str, Field(min_length=1)] | None = None
    prefix: Literal["", "user:", "group:"] = ""
    deny: list[Principal] = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.readers or self.field or self.deny):
            raise ValueError("says nothing: name readers, a field or deny")
        return self


class CorpusSettings(BaseModel):
    """Configuration of one corpus."""

    model_config = ConfigDict(extra="forbid")
    source: Spec
    strategy: Spec | None = None
    """The strategy; without one, or without its `name`, the default of the source."""

    synopsis: Annotated[SynopsisSettings | None, BeforeValidator(_synopsis)] = None
    edges: bool | Spec | list[Spec] = True
    max_loss: float = Field(default=0.5, ge=0, le=1)
    max_failures: float = Field(default=0.5, ge=0, le=1)
    schedule: ScheduleText = None
    backfill_schedule: ScheduleText = None
    partitions: Annotated[PartitionSettings, BeforeValidator(_partitions)] = PartitionSettings()
    owners: list[Owner] = Field(default_factory=list)
    group: GroupName | None = None
    tags: dict[TagText, TagText] = Field(default_factory=dict)
    deps: list[AssetPath] = Field(default_factory=list)
    quality: QualitySettings | None = None
    claims: WantedSpec = None
    summary_nodes: WantedSpec = None
    url: Annotated[str, AfterValidator(_url_template)] = ""
    """Template of the addresses of its artifacts, which search results for agents name."""

    access: list[AccessRuleSettings] | None = None
    """Who may read its artifacts; None is everybody, and [] those whom the source names."""


def _spec(said: object) -> object:
    """Convert a kind alone to its spec with all defaults."""
    return {"kind": said} if isinstance(said, str) else said


KindSpec = Annotated[Spec | None, BeforeValidator(_spec)]


class SearchSettings(BaseModel):
    """Defaults of every search."""

    model_config = ConfigDict(extra="forbid")
    rewrite: KindSpec = None
    rerank: KindSpec = None
    rerank_depth: int = Field(default=30, ge=1)
    select: KindSpec = None
    expand: Literal["section", "artifact"] | Annotated[int, Field(ge=0)] | None = None
    blend: Blend = 0.5
    """Share of the dense score in a hybrid score; rrf fuses by reciprocal rank."""
    route: Annotated[str, Field(min_length=1)] = "flat"
    memory: int = Field(default=512, ge=0)
    """Megabytes that the vectors of an index may take in the memory of a process; 0 leaves them in the table."""


def _expand_preset(given: Any) -> Any:
    """Replace the preset `gated` by its tiers."""
    if given == "gated":
        return list(GATED)
    if isinstance(given, str):
        raise ValueError(f"expected gated, or a list of {', '.join(Tier)}")  # noqa: TRY004  # for pydantic
    return given


class ReviewSettings(BaseModel):
    """Rules for showing and citing claims: which count as approved without a person, and which tiers are used.

    `answer_from: gated` uses only claims that a person approved.
    """

    model_config = ConfigDict(extra="forbid")
    approve: Trusting = "verbatim"
    answer_from: Annotated[list[Tier], BeforeValidator(_expand_preset)] = Field(
        default_factory=lambda: list(BY_DEFAULT.answer_from), min_length=1
    )

    @property
    def policy(self) -> ReviewPolicy:
        return ReviewPolicy(self.approve, tuple(self.answer_from))


class ContextSettings(BaseModel):
    """Context packs: the tokenizer that counts them, and the summarizer of items that did not fit."""

    model_config = ConfigDict(extra="forbid")
    tokenizer: Annotated[str, Field(min_length=1)] = EMBEDDER
    summarizer: KindSpec = None


MIN_RESULT_TOKENS = 200
"""Smallest budget of a result, which has to hold at least one entry and the way to the rest."""


class CallerSettings(BaseModel):
    """Somebody who asks with a token: a user, the groups that they are in, and the SHA-256 of the token."""

    model_config = ConfigDict(extra="forbid")
    token_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    user: Principal = ""
    groups: list[Principal] = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_somebody(self) -> Self:
        if self.token_sha256 == sha256(b"").hexdigest():
            raise ValueError("token_sha256 is the hash of nothing: was the variable empty?")
        try:
            _ = self.caller
        except QueryError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def caller(self) -> Caller:
        """The caller with these principals."""
        return Caller.of(self.user, self.groups)


def _different(callers: list[CallerSettings]) -> list[CallerSettings]:
    tokens = [each.token_sha256 for each in callers]
    if twice := next((each for each in callers if tokens.count(each.token_sha256) > 1), None):
        raise ValueError(f"{twice.caller} and another caller have the same token_sha256: give each a token of its own")
    return callers


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or "localhost"."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_confidential(url: str) -> bool:
    """Return whether nobody between can read what is asked at a URL: it has https, or is of this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def _confidential(url: str) -> str:
    if not (is_confidential(url) and url.isascii() and url.isprintable()) or {*'?#"@{}\\ '} & {*url}:
        raise ValueError("not a URL such as https://search.example.org, in ASCII, without a user or a query")
    return url


ConfidentialUrl = Annotated[str, AfterValidator(_confidential)]
"""URL with https, or of this machine, that can be stated in a header and to everybody."""


class OAuthSettings(BaseModel):
    """Tokens of an OAuth 2.1 authorization server: who issues them, for which server, and whom they name."""

    model_config = ConfigDict(extra="forbid")
    issuer: ConfidentialUrl
    """The authorization server, exactly as its metadata state it."""

    resource: ConfidentialUrl
    """The address of this server, as clients reach it, without /mcp."""

    audience: str | None = Field(default=None, min_length=1)
    """Who the tokens are for, if the authorization server does not write the resource there."""

    user: str = Field(default="sub", min_length=1)
    """The claim that names the user: `ann@example.org` is the principal `user:ann@example.org`."""

    groups: str | None = Field(default=None, min_length=1)
    """The claim that lists the groups: `hr` is the principal `group:hr`."""

    scopes: list[Annotated[str, StringConstraints(pattern=r"^[!#-\[\]-~]+$")]] = Field(default_factory=list)
    """Scopes that a token must have."""


class ServeSettings(BaseModel):
    """Serving of the index: its address, its callers and their limits."""

    model_config = ConfigDict(extra="forbid")
    corpora: list[CorpusName] | None = Field(default=None, min_length=1)
    """The corpora that can be queried, by default all; no other corpus is shown, counted or named."""

    read_only: bool = True
    """Whether proposing claims is disabled."""

    host: str = "127.0.0.1"
    port: int = Field(default=8077, ge=0, le=65535)
    token_env: str | None = None
    """Environment variable that holds the bearer token. Required if other machines can reach `host`."""

    callers: Annotated[list[CallerSettings], AfterValidator(_different)] = Field(default_factory=list)
    """Those who ask with tokens of their own, for what they may read. Who asks with `token_env` is the public."""

    oauth: OAuthSettings | None = None
    """The authorization server whose tokens name callers, too."""

    timeout: float = Field(default=30, gt=0)
    """Time limit of a request, in seconds."""

    at_once: int = Field(default=8, ge=1)
    waiting: int = Field(default=64, ge=0)
    """Requests processed at once, and requests that may wait; others are told to retry later."""

    caller_at_once: int = Field(default=4, ge=1)
    caller_waiting: int = Field(default=32, ge=0)
    """Limits per caller, which is an address, so that one caller cannot crowd out the others."""

    connections: int = Field(default=200, ge=1)
    """Connections at once. Above this limit, connections without a complete request are closed."""

    header_timeout: float = Field(default=10, gt=0)
    """Time limit for receiving the headers of a request, in seconds."""

    proxies: list[str] = Field(default=[])
    """Addresses of proxies that are trusted to name the caller in the header X-Forwarded-For."""

    body_bytes: int = Field(default=1_000_000, ge=1)
    query_bytes: int = Field(default=8_000, ge=1)
    profile: Literal["agent", "full", "search-fetch"] = "agent"
    """Tools of the MCP server: a few for agents, all of them, or the search and fetch that ChatGPT expects."""

    max_tokens: int = Field(default=8_000, ge=MIN_RESULT_TOKENS)
    """Tokens of one result over MCP, at 3.5 bytes each, unless the caller asks for another number."""

    dagster_url: str | None = None
    """URL of Dagster's UI, which the search page links to."""

    @property
    def token(self) -> str | None:
        """The bearer token, if one is configured. Raises ConfigError when its variable is not set."""
        if self.token_env is None:
            return None
        token = os.environ.get(self.token_env, "").strip()
        if not token:
            raise ConfigError(f"serve.token_env: ${self.token_env} is not set")
        return token


class DagsterSettings(BaseModel):
    """Content of Dagster's events and logs, and the pool and tags of its runs."""

    model_config = ConfigDict(extra="forbid")
    previews: bool = False
    """Whether events and logs contain text of documents. Dagster's history keeps it even after a purge or redaction."""

    key_prefix: list[KeyPart] = Field(default_factory=list)
    """Parts of every asset key that come before the name of the corpus."""

    pool: PoolName | None = None
    """Pool that limits how many steps run at once."""

    op_tags: dict[str, Any] = Field(default_factory=dict)
    """Tags of every step, such as the Kubernetes resources of a batch in `dagster-k8s/config`."""

    run_tags: dict[str, str] = Field(default_factory=dict)
    """Tags of every run of the jobs, such as a priority."""


class RaySettings(BaseModel):
    """Executor `ray`: a Ray cluster, and the actors on it that build batches."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["ray"] = "ray"
    address: str = Field(default="auto", min_length=1)
    """Address of the cluster: auto, local, HOST:PORT or ray://HOST:PORT."""

    cpus: float = Field(default=1, gt=0)
    gpus: float | None = Field(default=None, ge=0)
    """CPUs and GPUs of an actor; by default one GPU if the embedder's device is cuda, and else none."""

    actors: int = Field(default=4, ge=1)
    """Most actors at once; each builds a batch at a time."""


EMBEDDER_KIND = "sentence-transformers"
EXTRACTIVE = "extractive"


def _with_kind(kind: str) -> BeforeValidator:
    """Return a validator that adds the kind to a spec that does not name one."""
    return BeforeValidator(lambda said: {"kind": kind} | said if isinstance(said, dict) else said)


class Settings(BaseModel):
    """All settings of findingaid.yaml."""

    model_config = ConfigDict(extra="forbid")
    store: Annotated[str, AfterValidator(_without_credentials)] = ".findingaid/index"
    storage_options: StorageOptions = Field(default_factory=dict)
    retain: int = Field(default=1, ge=1)
    embedder: Annotated[Spec, _with_kind(EMBEDDER_KIND)] = Field(default_factory=lambda: {"kind": EMBEDDER_KIND})
    synthesizer: Annotated[Spec, _with_kind(EXTRACTIVE)] = Field(default_factory=lambda: {"kind": EXTRACTIVE})
    lexical: LexicalSettings = Field(default_factory=LexicalSettings)
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    prices: dict[str, PriceSettings] = Field(default_factory=dict)
    search: SearchSettings = Field(default_factory=SearchSettings)
    answer: KindSpec = None
    """The answerer for requests that ask for a model."""

    verifier: KindSpec = None
    """The verifier of the sentences that the answerer writes; by default it compares words."""

    context: ContextSettings = Field(default_factory=ContextSettings)
    review: ReviewSettings = Field(default_factory=ReviewSettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)
    executor: dict[str, Any] = Field(default_factory=lambda: {"kind": "in_process"})
    """Executor of the batches of a run: in_process, ray, or one of Dagster's, which run the steps of its runs."""

    dagster: DagsterSettings = Field(default_factory=DagsterSettings)

    quality: QualitySettings | None = None
    """Quality floor of every corpus without its own. Its cases search all corpora; a corpus is judged by its share."""

    corpora: dict[CorpusName, CorpusSettings]


def _require_no_nul(value: object, where: str) -> None:
    """Raise ConfigError for a text with a NUL character, which no path, model or address may contain."""
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{where}: contains a null character (\\0): remove it")
    if isinstance(value, dict):
        for key, within in value.items():
            _require_no_nul(str(key), where or "a key")
            _require_no_nul(within, f"{where}.{key}" if where else str(key))
    if isinstance(value, list):
        for within in value:
            _require_no_nul(within, where)
