"""OAuth 2.1 authorization server for tests: Authlib's, with clients that register themselves, PKCE, and JWTs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, grants
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from flask import Flask, Response, jsonify, redirect, request
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from werkzeug.serving import WSGIRequestHandler, make_server

LIFETIME = 300


@dataclass
class Client(ClientMixin):
    """Public client that has registered itself."""

    id: str
    redirect_uris: Sequence[str]
    client_info: Mapping[str, Any]
    client_metadata: Mapping[str, Any]

    def get_client_id(self) -> str:
        return self.id

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uris[0]

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.redirect_uris

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class User:
    """Somebody who is signed in."""

    name: str
    groups: Sequence[str]

    def get_user_id(self) -> str:
        return self.name


@dataclass
class Code(AuthorizationCodeMixin):
    """Authorization code of a user, for the resource that the client asked for."""

    code: str
    redirect_uri: str
    scope: str
    user: User
    resource: str
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Authority:
    """A running authorization server. `users` are signed in by the parameter `user` of its authorization page."""

    issuer: str = ""
    users: dict[str, User] = field(default_factory=dict)
    clients: dict[str, Client] = field(default_factory=dict)
    codes: dict[str, Code] = field(default_factory=dict)
    keys: list[ECKey] = field(default_factory=list)
    stated: dict[str, Any] = field(default_factory=dict)
    """Metadata in place of the true ones."""

    others: Sequence[Any] = ()
    """What its keys are stated with."""

    page: str = ""
    """What it answers in place of a configuration of OpenID Connect; by default nothing is there."""

    answers: threading.Event = field(default_factory=threading.Event)
    """Whether it answers at once, as at the beginning, or leaves who asks for its keys waiting."""

    fetched: int = 0
    """How often its keys were read."""

    def rotate(self) -> None:
        """Sign with a new key, and forget the others."""
        self.keys = [ECKey.generate_key("P-256", auto_kid=True)]

    def metadata(self) -> dict[str, Any]:
        """Return what it states of itself (RFC 8414)."""
        return {
            "issuer": self.issuer,
            "token_endpoint": f"{self.issuer}/token",
            "authorization_endpoint": f"{self.issuer}/authorize",
            "registration_endpoint": f"{self.issuer}/register",
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            **self.stated,
        }

    def token(self, resource: str, key: ECKey | None = None, typ: str = "at+jwt", **claims: Any) -> str:
        """Return a token, with other claims than usual. A claim that is None is left out."""
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": resource, "iat": now, "exp": now + LIFETIME, "sub": "ann"}
        key = key or self.keys[0]
        said = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode({"alg": "ES256", "kid": key.kid, "typ": typ}, said, key)


class Quiet(WSGIRequestHandler):
    """Handler that logs no requests."""

    def log_request(self, *_: object) -> None:
        pass


@contextmanager
def authority(*users: User, port: int = 0) -> Iterator[Authority]:
    """Run an authorization server on loopback."""
    state = Authority(users={user.name: user for user in users})
    state.rotate()
    state.answers.set()
    http = make_server("127.0.0.1", port, _app(state), threaded=True, request_handler=Quiet)
    state.issuer = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


class CodeGrant(grants.AuthorizationCodeGrant):
    """Codes of an authority, each for one use."""

    TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
    authority: Authority

    def save_authorization_code(self, code: str, asked: Any) -> None:
        data, payload = asked.payload.data, asked.payload
        pkce = data["code_challenge"], data["code_challenge_method"]
        self.authority.codes[code] = Code(
            code, payload.redirect_uri, payload.scope or "", asked.user, data["resource"], *pkce
        )

    def query_authorization_code(self, code: str, _: Any) -> Code | None:
        return self.authority.codes.get(code)

    def delete_authorization_code(self, code: Code) -> None:
        del self.authority.codes[code.code]

    def authenticate_user(self, code: Code) -> User:
        return code.user


class Tokens(JWTBearerTokenGenerator):  # type: ignore[misc]  # authlib has no types
    """Tokens for the resource that the client names (RFC 8707), with the groups of the user."""

    authority: Authority

    def get_jwks(self) -> KeySet:
        return KeySet([*self.authority.keys])

    def get_audiences(self, *_: Any) -> str:
        return str(request.form["resource"])

    def get_extra_claims(self, client: Any, grant_type: str, user: User, scope: str) -> dict[str, Any]:
        return {"groups": user.groups}


class Registration(ClientRegistrationEndpoint):
    """Registration that takes every client (RFC 7591)."""

    authority: Authority

    def authenticate_token(self, _: Any) -> bool:
        return True

    def save_client(self, info: Any, metadata: Any, _: Any) -> Client:
        client = Client(info["client_id"], metadata["redirect_uris"], info, metadata)
        self.authority.clients[client.id] = client
        return client

    def get_server_metadata(self) -> dict[str, Any]:
        return {}


def _app(authority: Authority) -> Flask:
    app = Flask("authorization")
    server = AuthorizationServer(app, query_client=authority.clients.get, save_token=lambda _token, _request: None)
    known = {"authority": authority}
    server.register_grant(type("Grant", (CodeGrant,), known), [CodeChallenge(required=True)])
    server.register_endpoint(type("Endpoint", (Registration,), known))

    @app.get("/.well-known/oauth-authorization-server")
    def metadata() -> Response:
        return jsonify(authority.metadata())

    @app.get("/keys")
    def keys() -> Response:
        authority.fetched += 1
        authority.answers.wait(60)
        return jsonify({"keys": [*authority.others, *(key.as_dict(private=False) for key in authority.keys)]})

    @app.get("/.well-known/openid-configuration")
    def openid() -> Response:
        return Response(authority.page, 200 if authority.page else 404)

    @app.get("/moved")
    def moved() -> Any:
        return redirect(request.args["to"])

    @app.get("/authorize")
    def authorize() -> Any:
        user = authority.users[request.args["user"]]
        return server.create_authorization_response(grant_user=user, grant=server.get_consent_grant(end_user=user))

    @app.post("/token")
    def token() -> Any:
        generator = type("Generator", (Tokens,), known)(authority.issuer, alg="ES256")
        server.register_token_generator("default", generator)
        return server.create_token_response()

    @app.post("/register")
    def register() -> Any:
        return server.create_endpoint_response("client_registration")

    return app
