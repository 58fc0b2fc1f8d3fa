"""Access: the principals that may read an artifact, and the caller who asks.

A principal is `public` (everybody who reaches the server), `user:NAME` or `group:NAME`. The readers of an artifact are
kept as one text, such as "group:staff -user:bob": those who may read it, and after a minus those who may not, which
counts more. Without any reader, nobody may read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self
from unicodedata import normalize

from findingaid.errors import QueryError, brief

PUBLIC = "public"
"""Principal of everybody, and the readers of an artifact of which nothing is said."""

NOBODY = ""
"""Readers of an artifact that nobody may read."""

KINDS = ("user:", "group:")
"""Beginnings of the principals that have a name."""

_PRINCIPAL = re.compile(r"public|(user|group):(?!-)[^\s\x00-\x1f\x7f\ud800-\udfff]{1,500}")


def is_principal(text: object) -> bool:
    """Return whether a value is a principal."""
    return isinstance(text, str) and _PRINCIPAL.fullmatch(text) is not None


def readers_text(allowed: Iterable[str], denied: Iterable[str] = ()) -> str:
    """Return the readers of an artifact as one text, in which equal readers are equal."""
    may, not_ = (sorted({normalize("NFC", each) for each in said}) for said in (allowed, denied))
    return " ".join([*may, *(f"-{principal}" for principal in not_)])


@dataclass(frozen=True, slots=True)
class Caller:
    """Principals of somebody who asks: everybody is `public` too. Those that are `revoked` only deny."""

    principals: frozenset[str]
    revoked: frozenset[str] = frozenset()

    @classmethod
    def of(cls, user: str = "", groups: Iterable[str] = ()) -> Self:
        """Return the caller who is this user, in these groups; an empty user is anonymous.

        Raises QueryError for a value that is not `user:NAME` or `group:NAME`.
        """
        said = [("user", user)] * bool(user) + [("group", group) for group in groups]
        for kind, principal in said:
            if not (is_principal(principal) and principal.startswith(f"{kind}:")):
                raise QueryError(f"caller: {brief(str(principal))} is not of the form {kind}:NAME, without spaces")
        return cls(frozenset([PUBLIC, *(normalize("NFC", principal) for _, principal in said)]))

    @classmethod
    def named(cls, principals: Iterable[str]) -> Self:
        """Return the caller with these principals, at most one of them a user. Raises QueryError as `of` does."""
        said = [each for each in principals if each != PUBLIC]
        users = [each for each in said if each.startswith("user:")]
        if len(users) > 1:
            raise QueryError(f"caller: {users[0]} and {users[1]}: nobody is two users")
        return cls.of(next(iter(users), ""), [each for each in said if each not in users])

    def __str__(self) -> str:
        said = sorted(self.principals - {PUBLIC}, key=lambda each: (not each.startswith("user:"), each))
        return " ".join(said) or (PUBLIC if self.principals else "nobody")

    def may_read(self, readers: str) -> bool:
        """Return whether the caller is among the readers of an artifact, see `readers_text`."""
        said = readers.split()  # fewer than the groups of some callers, and asked for every text of a table
        allowed = any(each in self.principals for each in said)
        denying = (each[1:] for each in said if each[0] == "-")
        return allowed and not any(each in self.principals or each in self.revoked for each in denying)
