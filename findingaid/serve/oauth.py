"""OAuth 2.1: the server as a resource server (RFC 9728), whose callers bring tokens of an authorization server.

A token is a JWT (RFC 9068) that the authorization server has signed for this server, which is its audience (RFC 8707).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt

from findingaid.access import KINDS, Caller, is_principal
from findingaid.config.settings import OAuthSettings, is_confidential
from findingaid.errors import QueryError, brief
from findingaid.serve.errors import ForbiddenError, IssuerError, UnauthorizedError

log = logging.getLogger("findingaid.serve")

METADATA = "/.well-known/oauth-protected-resource"
"""Path at which clients ask which authorization server gives tokens for this server (RFC 9728)."""

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms with a public key. With a shared secret, whoever checks a token could also make one."""

SKEW_SECONDS = 60
"""By how much the clocks of this server and of the authorization server may differ."""

KEYS_SECONDS = 3600
"""How long keys are used before they are read again."""

RETRY_SECONDS = 10
"""Minimum time between two reads of the keys, however many tokens name a key that is not among them."""

TYPES = ("jwt", "at+jwt")
"""Types of tokens for access. Others, such as that of a logout, have other rules (RFC 8725, section 3.11)."""

ANSWER_SECONDS = 5
MOST_BYTES = 1_000_000
"""Limits of an answer of the authorization server."""


Key = Any
"""A `jwt.PyJWK`, or a public key of the package cryptography."""


class Keys:
    """Public keys of an authorization server by their ids, read anew as they age, and when a token names another.

    While the authorization server is away, the keys that were read last are used. They are read in one thread: however
    long it takes, tokens with a known key do not wait, and those that do wait hold no thread.
    """

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._keys: Mapping[str | None, Key] = {}
        self._read = self._tried = float("-inf")
        self._failed = False
        self._reading: asyncio.Task[None] | None = None

    async def get(self, key_id: str | None) -> Key:
        """Return a key. Raises UnauthorizedError if there is none of this id, and IssuerError if none can be read."""
        if self._is_due(key_id):
            self.refresh()
        if key_id not in self._keys and self._reading:
            await asyncio.wait({self._reading}, timeout=ANSWER_SECONDS)
        if key := self._keys.get(key_id):
            return key
        if self._failed or self._reading:
            raise IssuerError(f"the keys of {self._issuer} cannot be read: see the log of the server")
        raise UnauthorizedError(f"the token is not valid: {self._issuer} has no key {brief(str(key_id))}")

    def refresh(self) -> None:
        """Begin to read the keys."""
        self._reading = asyncio.create_task(asyncio.to_thread(self._refresh))
        self._reading.add_done_callback(self._end)

    def _end(self, _: object) -> None:
        self._reading = None

    def _is_due(self, key_id: str | None) -> bool:
        now = time.monotonic()
        wanted = key_id not in self._keys or now - self._read > KEYS_SECONDS
        return wanted and self._reading is None and now - self._tried > RETRY_SECONDS

    def _refresh(self) -> None:
        try:
            self._keys = _read_keys(self._issuer)
        except Exception as error:  # noqa: BLE001  # whatever an answer makes the libraries raise
            self._failed = True
            log.warning(
                "serve.oauth: the keys of %s cannot be read: %s", self._issuer, str(error) or type(error).__name__
            )
        else:
            self._read, self._failed = time.monotonic(), False
        finally:
            self._tried = time.monotonic()


class ResourceServer:
    """Who asks with a token of the authorization server of the settings."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self.keys = Keys(settings.issuer)
        address = urlsplit(settings.resource)
        self.paths = frozenset({METADATA, METADATA + address.path, METADATA + address.path.rstrip("/")})
        self.metadata_url = f"{address.scheme}://{address.netloc}{METADATA}{address.path.rstrip('/')}"

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of this server for its clients (RFC 9728, section 2)."""
        return {
            "resource": self._settings.resource,
            "resource_name": "findingaid",
            "authorization_servers": [self._settings.issuer],
            "bearer_methods_supported": ["header"],
            **({"scopes_supported": self._settings.scopes} if self._settings.scopes else {}),
        }

    def challenge(self, status: int, has_token: bool) -> str:
        """Return the header WWW-Authenticate of a refusal (RFC 6750, section 3; RFC 9728, section 5.1)."""
        said = {"resource_metadata": self.metadata_url}
        if has_token:
            said["error"] = "insufficient_scope" if status == 403 else "invalid_token"
        if self._settings.scopes:
            said["scope"] = " ".join(self._settings.scopes)
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in said.items())

    async def caller(self, token: str) -> Caller:
        """Return the caller whom a token names, after its signature, issuer, audience, times and scopes.

        Raises UnauthorizedError for a token that does not hold, ForbiddenError without a required scope, and
        IssuerError when the keys to check it with cannot be read.
        """
        claims = await self._claims(token)
        if lacking := {*self._settings.scopes} - _scopes(claims):
            raise ForbiddenError(f"the token lacks the scope {' '.join(sorted(lacking))}")
        return self._named(claims)

    async def _claims(self, token: str) -> dict[str, Any]:
        settings = self._settings
        audience = (settings.audience or settings.resource).rstrip("/")
        try:
            header = jwt.get_unverified_header(token)
            if str(header.get("typ", "JWT")).lower().removeprefix("application/") not in TYPES:
                raise UnauthorizedError(f"the token is not valid: its typ is {brief(str(header['typ']))}")
            return jwt.decode(
                token,
                await self.keys.get(header.get("kid")),
                ALGORITHMS,
                {"require": ["exp", "iss", "aud", settings.user]},
                audience=[audience, f"{audience}/"],
                issuer=settings.issuer,
                leeway=SKEW_SECONDS,
            )
        except (jwt.PyJWTError, RecursionError, TypeError) as error:  # the last for a key of another kind
            raise UnauthorizedError(f"the token is not valid: {error}") from None

    def _named(self, claims: Mapping[str, Any]) -> Caller:
        settings = self._settings
        if settings.user == "email" and str(claims.get("email_verified", True)) not in {"True", "true"}:
            raise UnauthorizedError("the token is not valid: its email is not verified")
        if not isinstance(claims[settings.user], str):
            raise UnauthorizedError(f"the token is not valid: claim {settings.user} is not a text")
        try:
            return Caller.of(f"user:{claims[settings.user]}", self._groups(claims))
        except QueryError as error:
            raise UnauthorizedError(f"the token is not valid: claim {settings.user}: {error}") from None

    def _groups(self, claims: Mapping[str, Any]) -> list[str]:
        """Return the groups of a token; without those that no rule can name, such as names with spaces.

        A token whose groups are elsewhere is refused: a group that denies would be among them.
        """
        name = self._settings.groups
        if name is None:
            return []
        said = claims.get(name)
        named = [said] if isinstance(said, str) else [] if said is None else said
        sources = claims.get("_claim_names")  # OpenID Connect 1.0, section 5.6.2: aggregated and distributed
        elsewhere = claims.get("hasgroups") or (isinstance(sources, dict) and name in sources)  # the first is Entra's
        if elsewhere or not (isinstance(named, list) and all(isinstance(each, str) for each in named)):
            raise UnauthorizedError(f"the token is not valid: claim {name} is not a list of names")
        return [principal for each in named if is_principal(principal := f"{KINDS[1]}{each}")]


def _scopes(claims: Mapping[str, Any]) -> set[str]:
    """Return the scopes of a token: a text (RFC 9068), or a list under another name, as some servers write it."""
    said = claims.get("scope") or claims.get("scp")
    return set(said.split() if isinstance(said, str) else map(str, said) if isinstance(said, list) else ())


def _read_keys(issuer: str) -> Mapping[str | None, Key]:
    """Read the keys that sign tokens. One that cannot be used here hinders no other.

    A key that states no algorithm may be used with each of its kind; `PyJWK` would take one for it.
    """
    usable: dict[str | None, Key] = {}
    for stated in _get(_jwks_url(issuer))["keys"]:
        with suppress(Exception):
            key = jwt.PyJWK(stated)
            if key.algorithm_name in ALGORITHMS and key.public_key_use in {"sig", None}:
                usable[key.key_id] = key if "alg" in stated else key.key
    if not usable:
        raise ValueError("it states no key that can be used")
    return usable


def _jwks_url(issuer: str) -> str:
    """Return the address of the keys of an authorization server, as it states it (RFC 8414; OpenID Connect Discovery).

    Raises ValueError if it states none, or is another one.
    """
    address = urlsplit(issuer)
    path = address.path.rstrip("/")
    root = f"{address.scheme}://{address.netloc}"
    try:
        stated = _get(f"{root}{path}/.well-known/openid-configuration")
    except (HTTPError, ValueError):
        stated = _get(f"{root}/.well-known/oauth-authorization-server{path}")
    if stated.get("issuer") != issuer:
        raise ValueError(f"its metadata are of issuer {brief(str(stated.get('issuer')))}")
    url = stated.get("jwks_uri")
    if not (isinstance(url, str) and is_confidential(url)):
        raise ValueError("its metadata have no jwks_uri with https")
    return url


class _Confidential(HTTPRedirectHandler):
    """Follower of redirects that keeps to https."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if not is_confidential(newurl):
            raise ValueError(f"{req.full_url} leads to {brief(newurl)}, which has no https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get(url: str) -> dict[str, Any]:
    """Return an object of JSON. Raises OSError, HTTPException and ValueError."""
    until, text = time.monotonic() + ANSWER_SECONDS, b""
    with build_opener(_Confidential).open(url, timeout=ANSWER_SECONDS) as response:
        while part := response.read1():
            text += part
            if len(text) > MOST_BYTES:
                raise ValueError(f"{url}: more than {MOST_BYTES:,} bytes")
            if time.monotonic() > until:
                raise TimeoutError(f"{url}: not read within {ANSWER_SECONDS} s")
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{url}: not an object of JSON")  # noqa: TRY004  # an answer, not an argument
    return value
