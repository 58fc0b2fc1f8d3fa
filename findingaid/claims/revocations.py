"""Revocations: decisions that take rights away at once, before any run. They are kept in the log of decisions.

Whom or what a decision names is in `claim_id`: a principal or, with its corpus and artifact id, an artifact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import normalize

from findingaid.access import Caller
from findingaid.claims.decisions import Decision
from findingaid.claims.model import Action

OF_ACCESS = frozenset({Action.REVOKE, Action.ADMIT})
"""Actions that are about access, and not about a claim."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """Principals and artifacts, as (corpus, artifact id), that are revoked."""

    principals: frozenset[str] = frozenset()
    artifacts: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def after(cls, decisions: Iterable[Decision]) -> Revoked:
        """Return what is revoked after these decisions; of several on one thing the last counts."""
        principals: set[str] = set()
        artifacts: set[tuple[str, str]] = set()
        for decision in decisions:
            if decision.action in OF_ACCESS:
                revoked = decision.action is Action.REVOKE
                if decision.corpus:
                    key = decision.corpus, decision.artifact_id
                    (artifacts.add if revoked else artifacts.discard)(key)
                else:
                    (principals.add if revoked else principals.discard)(normalize("NFC", decision.claim_id))
        return cls(frozenset(principals), frozenset(artifacts))

    def limit(self, caller: Caller) -> Caller:
        """Return a caller without what is revoked. A revoked user reads nothing, in whatever groups they are."""
        gone = caller.principals & self.principals
        everything = any(principal.startswith("user:") for principal in gone)
        return Caller(frozenset() if everything else caller.principals - gone, gone)

    def __str__(self) -> str:
        return "\n".join([*sorted(self.principals), *sorted(map("/".join, self.artifacts))])
