"""Servers know their callers by the tokens of an OAuth 2.1 authorization server."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from select import select
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from findingaid import FindingAid
from findingaid.access import Caller
from findingaid.config.settings import OAuthSettings, ServeSettings
from findingaid.serve import oauth
from findingaid.serve.errors import IssuerError, UnauthorizedError
from findingaid.serve.oauth import METADATA, Keys, ResourceServer
from findingaid.serve.session import Session
from tests.access.test_callers import SECRET, indexed
from tests.access.test_servers import EVERYTHING, found
from tests.support.authorization import Authority, User, authority
from tests.support.serving import _WITHOUT_TLS, OPEN, http_get, post, served
from tests.support.web import on_loopback

RESOURCE = "https://search.example.org"


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    return indexed(tmp_path_factory.mktemp("served"), {**OPEN, **SECRET})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    with authority(User("ann", ["office"]), User("bob", [])) as running:
        yield running


def settings(issuer: Authority, **more: Any) -> dict[str, Any]:
    return {"issuer": issuer.issuer, "resource": RESOURCE, "groups": "groups", **more}


def caller(server: ResourceServer, token: str) -> Caller:
    return asyncio.run(server.caller(token))


def resource_server(issuer: Authority, **more: Any) -> ResourceServer:
    return ResourceServer(OAuthSettings(**settings(issuer, **more)))


class Signed:
    """What a client of the MCP SDK keeps of its sign-in."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def sign_in(address: str, user: str) -> OAuthClientProvider:
    """Return the sign-in of the MCP SDK for a server, with a browser in which a user is signed in."""
    arrived: dict[str, str] = {}

    async def browse(url: str) -> None:
        async with httpx2.AsyncClient(verify=_WITHOUT_TLS) as browser:
            response = await browser.get(f"{url}&user={user}")
        arrived.update(parse_qsl(urlsplit(response.headers["location"]).query))

    async def come_back() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=arrived["code"], state=arrived["state"])

    program: Any = {"redirect_uris": ["http://127.0.0.1:1/signed-in"], "token_endpoint_auth_method": "none"}
    return OAuthClientProvider(f"{address}/mcp", OAuthClientMetadata(**program), Signed(), browse, come_back)


def connected(address: str) -> socket.socket:
    host, port = urlsplit(address).netloc.split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def asking(token: str, connection: str = "keep-alive") -> bytes:
    """Return a request with a token."""
    lines = "GET /v1/status HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}", f"Connection: {connection}"
    return "\r\n".join([*lines, "", ""]).encode()


def test_a_client_of_mcp_finds_the_authorization_server_and_signs_in(aid: FindingAid, issuer: Authority) -> None:
    async def ask(address: str, user: str) -> set[str]:
        async with (
            httpx2.AsyncClient(verify=_WITHOUT_TLS, timeout=60, auth=sign_in(address, user)) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http), cache=None) as client,
        ):
            result = await client.call_tool("search", {"query": "auth tokens", "k": 50})
            return {hit["artifact_id"] for hit in result.structured_content["hits"]}

    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = settings(issuer, resource=f"http://127.0.0.1:{listener.getsockname()[1]}")
        with served(Session.of(aid), mcp=True, at=listener, oauth=here) as address:
            assert anyio.run(ask, address, "ann") == EVERYTHING
            assert anyio.run(ask, address, "bob") == {*OPEN}


def test_each_token_is_answered_for_its_caller(
    aid: FindingAid, issuer: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    ann, bob = issuer.token(RESOURCE, groups=["office"]), issuer.token(f"{RESOURCE}/", sub="bob")
    logged = caplog.at_level(logging.INFO, "findingaid.serve")
    with logged, served(Session.of(aid), "common", oauth=settings(issuer)) as address:
        assert found(address, ann) == EVERYTHING
        assert found(address, bob) == {*OPEN}
        assert found(address, "common") == {*OPEN}
        without = post(address, "status", {})
        wrong = post(address, "status", {}, authorization=f"Bearer {ann[:-9]}")
        stated = http_get(f"{address}{METADATA}")

    challenge = f'Bearer resource_metadata="{RESOURCE}{METADATA}"'
    assert (without.status_code, without.headers["www-authenticate"]) == (401, challenge)
    assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, f'{challenge}, error="invalid_token"')
    assert stated.json() == {
        "resource": RESOURCE,
        "resource_name": "findingaid",
        "authorization_servers": [issuer.issuer],
        "bearer_methods_supported": ["header"],
    }
    assert "user:ann group:office" in caplog.text
    assert ann[:40] not in caplog.text


def test_a_revoked_user_reads_nothing_by_a_token_that_holds(tmp_path: Path, issuer: Authority) -> None:
    aid = indexed(tmp_path, {**OPEN, **SECRET})
    with served(Session.of(aid), oauth=settings(issuer)) as address:
        token = issuer.token(RESOURCE, groups=["office"])
        assert found(address, token) == EVERYTHING
        aid.revoke("user:ann", actor="eve")
        assert found(address, token) == set()


FORGED = ECKey.generate_key("P-256", auto_kid=True)
PAST, FUTURE = 1, 4_000_000_000


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": PAST}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"nbf": FUTURE}, "not yet valid"),
        ({"iat": FUTURE}, "not yet valid"),
        ({"iss": "https://login.example.org"}, "issuer"),
        ({"iss": None}, "iss"),
        ({"aud": "https://other.example.org"}, "udience"),
        ({"aud": None}, "aud"),
        ({"aud": []}, "aud"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "user:"),
        ({"sub": "ann example"}, "'user:ann example'"),
        ({"groups": {"office": True}}, "claim groups"),
        ({"groups": ["office", 7]}, "claim groups"),
        ({"groups": 7}, "claim groups"),
        ({"_claim_names": {"groups": "src1"}}, "claim groups"),
        ({"hasgroups": True}, "claim groups"),
        ({"groups": False}, "claim groups"),
        ({"typ": "logout+jwt"}, "typ is 'logout[+]jwt'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_token_that_does_not_hold_is_refused_with_the_reason(
    issuer: Authority, claims: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnauthorizedError, match=rf"the token is not valid: .*{reason}"):
        caller(resource_server(issuer), issuer.token(RESOURCE, **claims))


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def signed(issuer: Authority, algorithm: str, secret: bytes) -> str:
    """Return a token for eve with the key id of the issuer, and the digest by a secret, if there is one."""
    said = {"iss": issuer.issuer, "aud": RESOURCE, "sub": "eve", "exp": FUTURE}
    parts = {"alg": algorithm, "kid": issuer.keys[0].kid}, said
    text = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256')) if secret else ''}"


def test_only_the_authorization_server_can_sign(issuer: Authority) -> None:
    """Neither with a key of one's own under the same id, nor with its public key as a shared secret, nor unsigned."""
    key = issuer.keys[0]
    same_id = ECKey.import_key({**FORGED.as_dict(private=True), "kid": key.kid})
    forged = [issuer.token(RESOURCE, same_id), issuer.token(RESOURCE, FORGED)]
    by_secret = signed(issuer, "HS256", key.as_pem(private=False))
    deep = encoded(b"[" * 9_000)
    server = resource_server(issuer)

    assert caller(server, issuer.token(RESOURCE)) == Caller.of("user:ann")
    for token in [*forged, by_secret, signed(issuer, "none", b""), "opaque", "a.b.c", f"{deep}.{deep}.x", "é.é.é"]:
        with pytest.raises(UnauthorizedError, match="the token is not valid"):
            caller(server, token)


@given(data=st.data())
def test_a_changed_token_is_refused(issuer: Authority, data: st.DataObject) -> None:
    server, token = resource_server(issuer), issuer.token(RESOURCE, groups=["office"])
    at = data.draw(st.integers(0, len(token) - 1))
    changed = f"{token[:at]}{data.draw(st.characters(codec='latin-1'))}{token[at + 1 :]}"
    try:
        known = caller(server, changed)
    except UnauthorizedError:
        return
    assert known == Caller.of("user:ann", ["group:office"])  # base64 has several forms of the same bytes


def test_a_refusal_can_be_sent_whatever_is_in_the_token(aid: FindingAid, issuer: Authority) -> None:
    half = ".".join(map(encoded, (rb'{"alg": "ES256", "crit": ["\ud800"]}', b"{}", b"x")))
    with served(Session.of(aid), oauth=settings(issuer)) as address:
        refused = post(address, "status", {}, authorization=f"Bearer {half}")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (401, "unauthorized")


def test_a_page_elsewhere_is_refused_for_what_it_is_and_not_for_its_token(aid: FindingAid, issuer: Authority) -> None:
    """Clients answer `insufficient_scope` with a new sign-in."""
    with served(Session.of(aid), oauth=settings(issuer)) as address:
        token = f"Bearer {issuer.token(RESOURCE)}"
        refused = post(address, "status", {}, authorization=token, origin="https://example.org")
    assert refused.status_code == 403
    assert "www-authenticate" not in refused.headers


def test_the_log_names_no_caller_for_a_token_that_does_not_hold(
    aid: FindingAid, issuer: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """On the connection of a caller that is known, too, whose answer is still on its way."""
    token = issuer.token(RESOURCE)
    logged = caplog.at_level(logging.INFO, "findingaid.serve")
    with logged, served(Session.of(aid), oauth=settings(issuer)) as address, connected(address) as connection:
        for each, more in (token, "keep-alive"), ("other", "close"):
            connection.sendall(asking(each, more))
        assert b" 401 " in b"".join(iter(lambda: connection.recv(65_536), b""))
    answered, refused = (record.getMessage() for record in caplog.records if "/v1/status" in record.getMessage())
    assert "user:ann" in answered
    assert "user:ann" not in refused


def test_clocks_may_differ_by_a_minute(issuer: Authority) -> None:
    now = int(time.time())
    for claims in {"exp": now - 30}, {"nbf": now + 30}:
        assert caller(resource_server(issuer), issuer.token(RESOURCE, **claims)) == Caller.of("user:ann")


def test_the_settings_say_which_claims_name_the_caller(issuer: Authority) -> None:
    server = resource_server(issuer, user="email", groups="roles", audience="api://search")
    said = {"email": "ann@example.org", "roles": ["hr", "All Users", "-x", ""], "groups": ["office"]}

    assert caller(server, issuer.token("api://search", **said)) == Caller.of("user:ann@example.org", ["group:hr"])
    one = caller(server, issuer.token("api://search", **{**said, "roles": "hr", "email_verified": True}))
    assert one == Caller.of("user:ann@example.org", ["group:hr"])
    for wrong in {"email_verified": False}, {"email_verified": "false"}, {"email": None}, {"aud": RESOURCE}:
        with pytest.raises(UnauthorizedError):
            caller(server, issuer.token("api://search", **{**said, **wrong}))


@pytest.mark.parametrize("user", [7, True, ["ann"], "a\ud800", "a\x1b[0m"], ids=ascii)
def test_a_user_is_a_name(issuer: Authority, user: Any) -> None:
    server = resource_server(issuer, user="uid")
    with pytest.raises(UnauthorizedError, match="claim uid"):
        server._named({"uid": user})


def test_without_a_claim_for_groups_there_are_none(issuer: Authority) -> None:
    server = resource_server(issuer, groups=None)
    assert caller(server, issuer.token(RESOURCE, groups=["office"])) == Caller.of("user:ann")


@pytest.mark.parametrize("scopes", [{"scope": "openid search"}, {"scp": "search"}, {"scp": ["x", "search"]}])
def test_a_required_scope_may_be_written_in_three_ways(issuer: Authority, scopes: dict[str, Any]) -> None:
    server = resource_server(issuer, scopes=["search"])
    assert caller(server, issuer.token(RESOURCE, **scopes)) == Caller.of("user:ann")


def test_a_token_without_a_required_scope_is_forbidden(aid: FindingAid, issuer: Authority) -> None:
    with served(Session.of(aid), oauth=settings(issuer, scopes=["search"])) as address:
        token = issuer.token(RESOURCE, scope="research openid")
        refused = post(address, "status", {}, authorization=f"Bearer {token}")

    assert refused.status_code == 403
    assert refused.json()["error"]["message"] == "the token lacks the scope search"
    assert 'error="insufficient_scope", scope="search"' in refused.headers["www-authenticate"]


def test_new_keys_are_read_when_a_token_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0)
    with authority() as issuer:
        server = resource_server(issuer)
        before = issuer.token(RESOURCE)
        assert caller(server, before) == caller(server, before) == Caller.of("user:ann")
        assert issuer.fetched == 1
        issuer.rotate()
        assert caller(server, issuer.token(RESOURCE)) == Caller.of("user:ann")
        with pytest.raises(UnauthorizedError, match="has no key"):
            caller(server, before)


def test_unknown_keys_do_not_make_the_server_ask_again_and_again(issuer: Authority) -> None:
    server, before = resource_server(issuer), issuer.fetched
    for _ in range(9):
        with pytest.raises(UnauthorizedError, match="has no key"):
            caller(server, issuer.token(RESOURCE, FORGED))
    assert issuer.fetched == before + 1


def test_known_keys_hold_while_the_authorization_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "KEYS_SECONDS", 0)
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0)
    with authority() as issuer:
        server = resource_server(issuer)
        assert caller(server, issuer.token(RESOURCE)) == Caller.of("user:ann")
    assert caller(server, issuer.token(RESOURCE)) == Caller.of("user:ann")
    with pytest.raises(IssuerError, match=f"the keys of {issuer.issuer} cannot be read"):
        caller(server, issuer.token(RESOURCE, FORGED))


def test_while_the_authorization_server_hangs_known_callers_are_answered(
    aid: FindingAid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0)
    with (
        authority() as issuer,
        served(Session.of(aid), "common", oauth=settings(issuer)) as address,
        ExitStack() as open_,
    ):
        token, unknown = issuer.token(RESOURCE), issuer.token(RESOURCE, FORGED)
        assert post(address, "status", {}, authorization=f"Bearer {token}").status_code == 200
        open_.callback(issuer.answers.set)
        issuer.answers.clear()
        waiting = [open_.enter_context(connected(address)) for _ in range(50)]
        for each in waiting:
            each.sendall(asking(unknown))
        for known in (token, "common"):
            assert post(address, "status", {}, authorization=f"Bearer {known}").status_code == 200
        assert select(waiting, [], [], 0)[0] == []
        issuer.answers.set()
        assert {each.recv(12) for each in waiting} == {b"HTTP/1.1 401"}


def test_an_answer_that_trickles_in_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(oauth, "ANSWER_SECONDS", 0.2)

    class Trickle(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.02)

    with on_loopback(Trickle) as address, pytest.raises(IssuerError):
        asyncio.run(Keys(address).get(None))
    assert "not read within 0.2 s" in caplog.text


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
def test_a_key_that_states_no_algorithm_holds_for_each_of_its_kind(algorithm: str) -> None:
    key = RSAKey.generate_key(2048, auto_kid=True)
    with authority() as issuer:
        said = {"iss": issuer.issuer, "aud": RESOURCE, "sub": "ann", "exp": FUTURE}
        token, of_other_kind = (
            jwt.encode({"alg": algorithm, "kid": kid}, said, key, [algorithm]) for kid in (key.kid, issuer.keys[0].kid)
        )
        issuer.others = [key.as_dict(private=False)]
        assert caller(resource_server(issuer), token) == Caller.of("user:ann")
        with pytest.raises(UnauthorizedError, match="the token is not valid"):
            caller(resource_server(issuer), of_other_kind)
        issuer.others = [{**key.as_dict(private=False), "alg": "RS384"}]
        with pytest.raises(UnauthorizedError, match="the token is not valid"):
            caller(resource_server(issuer), token)


def test_a_key_that_cannot_be_used_hinders_no_other() -> None:
    with authority() as issuer:
        key = issuer.keys[0].as_dict(private=False)
        shared = {"kty": "oct", "k": "c2VjcmV0", "kid": key["kid"]}
        issuer.others = [
            5,
            {**key, "alg": "none"},
            {**key, "alg": []},
            {**key, "kid": []},
            {**key, "use": []},
            {"kty": "RSA"},
        ]
        assert caller(resource_server(issuer), issuer.token(RESOURCE)) == Caller.of("user:ann")
        issuer.others, issuer.keys = [shared, {**key, "use": "enc"}], []
        with pytest.raises(IssuerError):
            asyncio.run(Keys(issuer.issuer).get(key["kid"]))


def test_a_server_starts_while_the_authorization_server_is_away(
    aid: FindingAid, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0)
    with authority() as issuer:
        token = issuer.token(RESOURCE)
    with served(Session.of(aid), oauth=settings(issuer)) as address:
        refused = post(address, "status", {}, authorization=f"Bearer {token}")
        with authority(port=urlsplit(issuer.issuer).port or 0) as back:
            answered = post(address, "status", {}, authorization=f"Bearer {back.token(RESOURCE)}")

    assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "issuer")
    assert "refused" not in refused.text
    assert f"serve.oauth: the keys of {issuer.issuer} cannot be read: <urlopen error [Errno 111] Con" in caplog.text
    assert answered.json()["caller"] == "user:ann"


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"issuer": "https://login.example.org"}, "its metadata are of issuer 'https://login.example.org'"),
        ({"jwks_uri": None}, "no jwks_uri"),
        ({"jwks_uri": "http://login.example.org/keys"}, "no jwks_uri with https"),
        ({"jwks_uri": "file:///etc/passwd"}, "no jwks_uri with https"),
        (
            {"jwks_uri": "/moved?to=http://login.example.org/keys"},
            "leads to 'http://login.example.org/keys', which has no",
        ),
    ],
    ids=["another issuer", "no keys", "keys without TLS", "keys in a file", "keys that moved out of TLS"],
)
def test_metadata_that_cannot_be_trusted_give_no_keys(
    stated: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with authority() as issuer:
        moved = str(stated.get("jwks_uri", "")).startswith("/")
        issuer.stated = {"jwks_uri": issuer.issuer + stated["jwks_uri"]} if moved else stated
        with pytest.raises(IssuerError):
            asyncio.run(Keys(issuer.issuer).get("any"))
    assert reason in caplog.text


def test_a_page_in_place_of_metadata_is_not_taken_for_them() -> None:
    with authority() as issuer:
        issuer.page = "<!doctype html>"
        assert caller(resource_server(issuer), issuer.token(RESOURCE)) == Caller.of("user:ann")


def test_the_metadata_are_at_the_path_of_the_resource_as_well(aid: FindingAid, issuer: Authority) -> None:
    below = settings(issuer, resource=f"{RESOURCE}/docs/")
    with served(Session.of(aid), oauth=below) as address:
        stated = [http_get(f"{address}{METADATA}{path}").json()["resource"] for path in ("", "/docs", "/docs/")]
        challenge = post(address, "status", {}).headers["www-authenticate"]
    assert stated == [f"{RESOURCE}/docs/"] * 3
    assert challenge == f'Bearer resource_metadata="{RESOURCE}{METADATA}/docs"'


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://login.example.org"},
        {"issuer": "login.example.org"},
        {"resource": "https://search.example.org/?a=1"},
        {"resource": 'https://search.example.org/"'},
        {"resource": "https://search.example.org\n"},
        {"resource": "https://bücher.example.org"},
        {"resource": "https://search.example.org/{all}"},
        {"issuer": "https://ann:secret@login.example.org"},
        {"issuer": "https://login.example.org:99999"},
        {"user": ""},
        {"scopes": ["two words"]},
        {"secret": "x"},
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ServeSettings.model_validate({"oauth": {"issuer": "https://login.example.org", "resource": RESOURCE, **wrong}})
