"""Access rules of a corpus: who may read each of its artifacts, by path pattern or by a field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from findingaid.access import KINDS, NOBODY, PUBLIC, is_principal, readers_text
from findingaid.errors import ConfigError, brief
from findingaid.identity.hashes import content_hash
from findingaid.model import Artifact, Note
from findingaid.sources.patterns import Patterns, check_pattern

UNREADABLE = "access"
"""Kind of the note on an artifact that nobody may read."""


@dataclass(frozen=True)
class AccessRule:
    """Who may read the artifacts whose id matches a pattern, as in .gitignore.

    These are the `readers`, and the principals in the artifact's `field`, a text or a list; a name there that is no
    principal gets the `prefix`. Those in `deny` may not, whatever else is said. Raises ConfigError for the pattern.
    """

    match: str = "**"
    readers: Sequence[str] = ()
    field: str | None = None
    prefix: str = ""
    deny: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.match.startswith("!"):
            raise ConfigError(f"match: {brief(self.match)} excludes: write a rule for what it leaves")
        check_pattern("match", self.match)
        if not self._patterns.matchable:
            raise ConfigError(f"match: {brief(self.match)} matches nothing: write \\# for a name that begins with #")

    @cached_property
    def _patterns(self) -> Patterns:
        return Patterns([self.match])

    @property
    def allows(self) -> bool:
        """Whether it says who may read, and not only who may not."""
        return bool(self.readers or self.field)

    def matches(self, artifact_id: str) -> bool:
        return self._patterns.match(artifact_id)

    def allowed(self, artifact: Artifact) -> list[str]:
        """Return those who may read an artifact. Raises ValueError if its field does not name anybody."""
        if not self.field:
            return [*self.readers]
        said = artifact.metadata.get(self.field)
        if said is None and isinstance(artifact.raw, Mapping):
            said = artifact.raw.get(self.field)
        if not said:
            raise ValueError(f"it has no field {self.field!r}")
        named = [self._principal(each) for each in (said if isinstance(said, list | tuple) else [said])]
        if wrong := [each for each in named if not is_principal(each)]:
            raise ValueError(f"its field {self.field!r} names {brief(str(wrong[0]))}, which is no principal")
        return [*self.readers, *map(str, named)]

    def _principal(self, name: object) -> object:
        plain = isinstance(name, str) and name and name != PUBLIC and not name.startswith(KINDS)
        return f"{self.prefix}{name}" if plain else name


@dataclass(frozen=True)
class AccessRules:
    """Access rules of a corpus, in the order of its configuration.

    Of the rules that match an artifact, the last one that names readers decides who may read it; each of them may deny,
    and denials always count. If the source names readers of the artifact, these replace the readers of the rules.
    Without readers, or with some that cannot be understood, nobody may read it.
    """

    rules: Sequence[AccessRule] = ()

    @property
    def id(self) -> str:
        """Identifier that changes with the rules."""
        said = [[r.match, sorted(r.readers), r.field, r.prefix, sorted(r.deny)] for r in self.rules]
        return content_hash("access-1", said)[:16]

    def readers(self, artifact: Artifact) -> tuple[str, Note | None]:
        """Return the readers of an artifact, see `readers_text`, and the reason if nobody may read it.

        A source that knows the reason gives it as a note of kind UNREADABLE.
        """
        matching = [rule for rule in self.rules if rule.matches(artifact.artifact_id)]
        denied = [principal for rule in matching for principal in rule.deny]
        try:
            allowed, own = self._said(artifact, matching)
        except ValueError as error:
            return NOBODY, Note(UNREADABLE, f"nobody may read it: {error}")
        if not allowed and any(note.kind == UNREADABLE for note in artifact.notes):
            return NOBODY, None
        if not allowed:
            return NOBODY, Note(UNREADABLE, "nobody may read it: its source names no reader")
        return readers_text(allowed, [*own, *denied]), None

    def explain(self, artifact_id: str, by_source: Sequence[str] = ()) -> Iterator[str]:
        """Yield a line for each rule that matches an artifact, the one that says who may read it first.

        The lines `by_source`, if there are any, take the place of that one.
        """
        yield from by_source
        matching = [(number, rule) for number, rule in enumerate(self.rules, 1) if rule.matches(artifact_id)]
        deciding = next((place for place in reversed(matching) if place[1].allows), None)
        if deciding and not by_source:
            number, rule = deciding
            said = [*rule.readers, *([f"those in its field {rule.field!r}"] if rule.field else [])]
            yield f"rule {number} ({rule.match}): {', '.join(said)} may read it"
        for number, rule in matching:
            if rule.deny:
                yield f"rule {number} ({rule.match}): {', '.join(rule.deny)} may not"

    def unused(self, artifact_ids: Collection[str]) -> list[str]:
        """Return a line for each rule that matches none of these artifacts."""
        return [
            f"access: rule {number} ({rule.match}) matches no artifact"
            for number, rule in enumerate(self.rules, 1)
            if artifact_ids and not any(map(rule.matches, artifact_ids))
        ]

    def _said(self, artifact: Artifact, matching: Sequence[AccessRule]) -> tuple[list[str], list[str]]:
        """Return who may read an artifact, and who may not by its source. Raises ValueError if that is not known."""
        if artifact.readers is not None:
            said = [str(each) for each in artifact.readers]
            if wrong := [each for each in said if not is_principal(each.removeprefix("-"))]:
                raise ValueError(f"its source names {brief(wrong[0])} as a reader, which is no principal")
            denied = [each.removeprefix("-") for each in said if each.startswith("-")]
            return [each for each in said if not each.startswith("-")], denied
        deciding = next((rule for rule in reversed(matching) if rule.allows), None)
        if deciding is None:
            raise ValueError("no rule of `access` says who may")
        return deciding.allowed(artifact), []
