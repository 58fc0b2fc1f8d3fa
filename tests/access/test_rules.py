"""Access rules: who may read an artifact, by its source, by pattern and by field."""

from __future__ import annotations

import pytest

from findingaid import Artifact, ConfigError, QueryError
from findingaid.access import NOBODY, Caller, is_principal
from findingaid.sources.access import AccessRule, AccessRules

RULES = AccessRules(
    [
        AccessRule("**", ["public"]),
        AccessRule("hr/", ["group:hr", "user:ann"], deny=["user:bob"]),
        AccessRule("hr/pay/", field="for", prefix="user:"),
        AccessRule("*.key", deny=["public"]),
    ]
)


def readers(artifact: Artifact, rules: AccessRules = RULES) -> str:
    return rules.readers(artifact)[0]


def why(artifact: Artifact, rules: AccessRules = RULES) -> str:
    return str(rules.readers(artifact)[1])


def test_the_last_rule_that_allows_decides_and_every_one_may_deny() -> None:
    assert readers(Artifact("a.md", "")) == "public"
    assert readers(Artifact("hr/a.md", "")) == "group:hr user:ann -user:bob"
    assert readers(Artifact("hr/pay/a.md", "", {"for": "eve"})) == "user:eve -user:bob"
    assert readers(Artifact("hr/pay/a.key", "", {"for": "eve"})) == "user:eve -public -user:bob"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("eve", "user:eve"),
        (["eve", "group:hr", "public"], "group:hr public user:eve"),
        ("eve and ann", NOBODY),
        ("", NOBODY),
        ([], NOBODY),
        ([""], NOBODY),
        (["eve", 7], NOBODY),
        ([["eve"]], NOBODY),
        ({"eve": True}, NOBODY),
        (True, NOBODY),
        ("-ann", NOBODY),
        ("user:", NOBODY),
        ("x\ny", NOBODY),
        ("x" * 600, NOBODY),
    ],
)
def test_a_field_that_cannot_be_understood_gives_access_to_nobody(said: object, expected: str) -> None:
    rules = AccessRules([AccessRule(field="for", prefix="user:")])

    assert readers(Artifact("a.md", "", {"for": said}), rules) == expected
    assert ("nobody may read it" in why(Artifact("a.md", "", {"for": said}), rules)) is (expected == NOBODY)


def test_a_field_of_a_record_is_a_column_of_it() -> None:
    assert readers(Artifact("hr/pay/7", {"for": "eve", "text": "x"})) == "user:eve -user:bob"
    assert readers(Artifact("hr/pay/7", {"text": "x"})) == NOBODY


def test_what_a_source_says_comes_before_the_rules_but_for_those_who_may_not() -> None:
    assert readers(Artifact("hr/a.md", "", readers=["user:eve", "-group:guests"])) == "user:eve -group:guests -user:bob"
    assert readers(Artifact("a.md", "", readers=[])) == NOBODY
    assert readers(Artifact("a.md", "", readers=["everybody"])) == NOBODY
    assert readers(Artifact("a.md", "", readers=["-user:bob"])) == NOBODY
    assert "names 'everybody' as a reader" in why(Artifact("a.md", "", readers=["everybody"]))


def test_without_a_rule_that_says_who_may_nobody_may() -> None:
    assert readers(Artifact("a.md", ""), AccessRules()) == NOBODY
    assert readers(Artifact("a.md", ""), AccessRules([AccessRule(deny=["user:bob"])])) == NOBODY
    assert "no rule of `access` says who may" in why(Artifact("a.md", ""), AccessRules())


def test_names_match_in_either_form_of_unicode() -> None:
    rules = AccessRules([AccessRule("Ärzte/", ["group:doctors"])])

    assert readers(Artifact("Ärzte/a.md", ""), rules) == "group:doctors"
    assert readers(Artifact("A\u0308rzte/a.md", ""), rules) == "group:doctors"


def test_deny_beats_allow_for_every_principal_of_a_caller() -> None:
    said = "group:hr user:ann -group:guests -user:bob"

    assert Caller.of("user:ann").may_read(said)
    assert Caller.of("user:eve", ["group:hr"]).may_read(said)
    assert not Caller.of("user:bob", ["group:hr"]).may_read(said)
    assert not Caller.of("user:ann", ["group:guests"]).may_read(said)
    assert not Caller.of().may_read(said)
    assert not Caller.of("user:ann").may_read("")
    assert not Caller.of("user:ann").may_read("user:ann -public")


def test_principals_are_the_same_in_either_form_of_unicode() -> None:
    """Else a denial in one form would not hold for a caller in the other."""
    for denied, name in (("user:Zo\u00eb", "user:Zoe\u0308"), ("user:Zoe\u0308", "user:Zo\u00eb")):
        rules = AccessRules([AccessRule("**", ["public"], deny=[denied])])

        assert not Caller.of(name).may_read(readers(Artifact("a.md", ""), rules))
        assert Caller.of(name).may_read(readers(Artifact("a.md", "", readers=[denied]), AccessRules()))


def test_the_id_changes_with_whatever_could_change_the_readers() -> None:
    rule = AccessRule("a", ["public"], "for", "user:", ["user:bob"])
    others = [
        AccessRule("b", ["public"], "for", "user:", ["user:bob"]),
        AccessRule("a", ["group:x"], "for", "user:", ["user:bob"]),
        AccessRule("a", ["public"], "of", "user:", ["user:bob"]),
        AccessRule("a", ["public"], "for", "group:", ["user:bob"]),
        AccessRule("a", ["public"], "for", "user:", []),
    ]

    ids = {AccessRules([each]).id for each in [rule, *others]}
    assert len(ids | {AccessRules().id, AccessRules([rule, rule]).id}) == 8
    assert AccessRules([rule]).id == AccessRules([AccessRule("a", ["public"], "for", "user:", ["user:bob"])]).id


@pytest.mark.parametrize(
    ("user", "groups", "reason"),
    [("ann", [], "ann"), ("group:hr", [], "group:hr"), ("user:a b", [], "user:a b"), ("", ["hr"], "hr")],
)
def test_a_caller_has_a_user_and_groups(user: str, groups: list[str], reason: str) -> None:
    with pytest.raises(QueryError, match=f"caller: '{reason}' is not of the form"):
        Caller.of(user, groups)
    with pytest.raises(QueryError, match="nobody is two users"):
        Caller.named(["user:ann", "user:bob"])


def test_what_is_a_principal() -> None:
    assert all(map(is_principal, ["public", "user:ann@x.org", "group:a/b:c"]))
    assert not any(map(is_principal, ["", "user:", "users:x", "user:-x", "user:a b", "-user:a", "Public", None, 7]))


@pytest.mark.parametrize("pattern", ["!a", "../a", "a\\b", "", " ", "#a"])
def test_a_pattern_that_cannot_match_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="match: "):
        AccessRule(pattern, ["public"])
