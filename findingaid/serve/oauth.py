"""OAuth 2.1: the server as a resource server (RFC 9728), whose callers bring tokens of an authorization server.

A token is a JWT (RFC 9068) that the authorization server has signed for this server, which is its audience (RFC 8707).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http.client import HTTPException
from threading import Lock
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import jwt

from findingaid.access import KINDS, Caller, is_principal
from findingaid.config.settings import OAuthSettings, is_confidential
from findingaid.errors import QueryError, brief
from findingaid.serve.errors import ForbiddenError, IssuerError, UnauthorizedError

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

ANSWER_SECONDS = 5
MOST_BYTES = 1_000_000
"""Limits of an answer of the authorization server."""


class Keys:
    """Public keys of an authorization server by their ids, read anew as they age, and when a token names another.

    While the authorization server is away, the keys that were read last are used.
    """

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._read = self._tried = float("-inf")
        self._problem = ""
        self._reading = Lock()

    def get(self, key_id: str | None) -> jwt.PyJWK:
        """Return a key. Raises UnauthorizedError if there is none of this id, and IssuerError if none can be read."""
        if self._is_due(key_id) and self._reading.acquire(blocking=key_id not in self._keys):
            try:
                if self._is_due(key_id):
                    self._refresh()
            finally:
                self._reading.release()
        key, problem = self._keys.get(key_id), self._problem
        if key is None and problem:
            raise IssuerError(f"serve.oauth: the keys of {self._issuer} cannot be read: {problem}")
        if key is None:
            raise UnauthorizedError(f"the token is not valid: {self._issuer} has no key {brief(str(key_id))}")
        return key

    def _is_due(self, key_id: str | None) -> bool:
        now = time.monotonic()
        wanted = key_id not in self._keys or now - self._read > KEYS_SECONDS
        return wanted and now - self._tried > RETRY_SECONDS

    def _refresh(self) -> None:
        try:
            found = jwt.PyJWKSet.from_dict(_get(_jwks_url(self._issuer))).keys
        except (OSError, HTTPException, ValueError, jwt.PyJWTError, RecursionError) as error:
            self._problem = str(error) or type(error).__name__
        else:
            self._keys = {key.key_id: key for key in found if key.public_key_use in {"sig", None}}
            self._read, self._problem = time.monotonic(), ""
        finally:
            self._tried = time.monotonic()


class ResourceServer:
    """Who asks with a token of the authorization server of the settings."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self.keys = Keys(settings.issuer)
        address = urlsplit(settings.resource)
        self.paths = frozenset({METADATA, METADATA + address.path.rstrip("/")})
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

    def caller(self, token: str) -> Caller:
        """Return the caller whom a token names, after its signature, issuer, audience, times and scopes.

        Raises UnauthorizedError for a token that does not hold, ForbiddenError without a required scope, and
        IssuerError when the keys to check it with cannot be read.
        """
        claims = self._claims(token)
        if lacking := {*self._settings.scopes} - _scopes(claims):
            raise ForbiddenError(f"the token lacks the scope {' '.join(sorted(lacking))}")
        return self._named(claims)

    def _claims(self, token: str) -> dict[str, Any]:
        settings = self._settings
        audience = (settings.audience or settings.resource).rstrip("/")
        try:
            key = self.keys.get(jwt.get_unverified_header(token).get("kid"))
            return jwt.decode(
                token,
                key,
                ALGORITHMS,
                {"require": ["exp", "iss", "aud", settings.user]},
                audience=[audience, f"{audience}/"],
                issuer=settings.issuer,
                leeway=SKEW_SECONDS,
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise UnauthorizedError(f"the token is not valid: {error}") from None

    def _named(self, claims: Mapping[str, Any]) -> Caller:
        settings = self._settings
        if settings.user == "email" and str(claims.get("email_verified", True)) not in {"True", "true"}:
            raise UnauthorizedError("the token is not valid: its email is not verified")
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
        said = claims.get(name) or []
        named = [said] if isinstance(said, str) else said
        elsewhere = claims.get("_claim_names") or {}  # OpenID Connect 1.0, section 5.6.2: aggregated and distributed
        if name in elsewhere or not (isinstance(named, list) and all(isinstance(each, str) for each in named)):
            raise UnauthorizedError(f"the token is not valid: claim {name} is not a list of names")
        return [principal for each in named if is_principal(principal := f"{KINDS[1]}{each}")]


def _scopes(claims: Mapping[str, Any]) -> set[str]:
    """Return the scopes of a token: a text (RFC 9068), or a list under another name, as some servers write it."""
    said = claims.get("scope") or claims.get("scp") or []
    return set(said.split() if isinstance(said, str) else map(str, said))


def _jwks_url(issuer: str) -> str:
    """Return the address of the keys of an authorization server, as it states it (RFC 8414; OpenID Connect Discovery).

    Raises ValueError if it states none, or is another one.
    """
    address = urlsplit(issuer)
    path = address.path.rstrip("/")
    root = f"{address.scheme}://{address.netloc}"
    try:
        stated = _get(f"{root}{path}/.well-known/openid-configuration")
    except HTTPError:
        stated = _get(f"{root}/.well-known/oauth-authorization-server{path}")
    if stated.get("issuer") != issuer:
        raise ValueError(f"its metadata are of issuer {brief(str(stated.get('issuer')))}")
    url = stated.get("jwks_uri")
    if not (isinstance(url, str) and is_confidential(url)):
        raise ValueError("its metadata have no jwks_uri with https")
    return url


def _get(url: str) -> dict[str, Any]:
    """Return an object of JSON. Raises OSError, HTTPException and ValueError."""
    with urlopen(url, timeout=ANSWER_SECONDS) as response:  # noqa: S310  # `is_confidential` has checked the scheme
        text = response.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"{url}: more than {MOST_BYTES:,} bytes")
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{url}: not an object of JSON")  # noqa: TRY004  # an answer, not an argument
    return value
