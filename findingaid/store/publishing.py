"""Which version of the records readers have: Lance tags on the records table.

`published` marks the one served, `published-N` those kept to go back to, and `rolled-back` the newest version
at the time of a rollback, so that a run which changes nothing does not publish again what was just withdrawn.
The edges of records version N are those that bear the tag `records-N` on their own table. It is there before readers
can have N, so that whoever looks up the version first and then its edges has what belongs together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

from findingaid.errors import StoreError

if TYPE_CHECKING:
    import lance

    from findingaid.store.store import Store

PUBLISHED = "published"
KEPT = "published-"
ROLLED_BACK = "rolled-back"
EDGES_OF = "records-"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the records that readers had; `written` is when, as ISO 8601 in UTC."""

    version: int
    written: str
    records: int
    served: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Publisher:
    """Moves the tags of a store's records; `retain` published versions are kept, the served one included."""

    def __init__(self, store: Store, retain: int = 1) -> None:
        self._store = store
        self._retain = retain

    def served(self) -> int | None:
        """The version readers have, or None before the first was published."""
        return self._tags().get(PUBLISHED)

    def newest(self) -> int:
        """The version that the last commit made."""
        return int(self._records().version)

    def current(self) -> bool:
        """Whether readers have the newest records and edges."""
        served = self.served()
        edges = self._tags("edges").get(f"{EDGES_OF}{served}")
        return served == self.newest() and edges == self._store.dataset("edges").version

    def withdrawn(self) -> bool:
        """Whether a rollback withdrew what is newest and nothing was written since."""
        return self._tags().get(ROLLED_BACK) == self.newest()

    def versions(self) -> list[Version]:
        """The published versions that are kept, newest first."""
        with self._store.reached():
            return self._versions()

    def _versions(self) -> list[Version]:
        tags = self._tags()
        wanted = {v for name, v in tags.items() if name == PUBLISHED or name.startswith(KEPT)}
        written: dict[Any, Any] = {v["version"]: v["timestamp"] for v in self._records().versions()}
        return [
            Version(
                version,
                written[version].astimezone(UTC).isoformat(timespec="seconds"),
                int(self._store.dataset("records", version).count_rows()),
                version == tags[PUBLISHED],
            )
            for version in sorted(wanted, reverse=True)
        ]

    def publish(self, version: int | None = None, edges: int | None = None) -> int:
        """Serve a version, by default the newest; returns the one served, which never goes back by this.

        `edges` is the version of the edges that belongs to it, by default the newest.
        """
        target = max(version or self.newest(), self.served() or 0)
        self._tag(f"{EDGES_OF}{target}", edges or int(self._store.dataset("edges").version), "edges")
        self._serve(target)
        self._untag(ROLLED_BACK)
        kept = sorted((v for name, v in self._tags().items() if name.startswith(KEPT)), reverse=True)
        for version in kept[max(0, self._retain - 1) :]:
            self._untag(f"{KEPT}{version}")
        served = set(self._tags().values())
        for name in self._tags("edges"):
            version = int(name.removeprefix(EDGES_OF))
            if version < target and version not in served:  # a later one is another run's, about to be served
                self._untag(name, "edges")
        return target

    def rollback(self, version: int | None = None) -> int:
        """Serve an earlier version, by default the one before; returns it. Raises StoreError when it is not kept."""
        kept = [v.version for v in self.versions() if not v.served]
        served = self.served()
        earlier = [v for v in kept if served is not None and v < served]
        target = version if version is not None else max(earlier, default=None)
        if target is None or target not in kept:
            which = "an earlier version" if version is None else f"version {version}"
            known = f"Kept: {', '.join(map(str, kept))}" if kept else "Set `retain` to 2 or more to keep some"
            raise StoreError(f"{which} of the records is not kept. {known}")
        self._serve(target)
        self.hold()
        return target

    def hold(self) -> None:
        """Keep the newest version from being published until something is written after it."""
        self._tag(ROLLED_BACK, self.newest())

    def _serve(self, version: int) -> None:
        served = self.served()
        if served is not None and served != version:
            self._tag(f"{KEPT}{served}", served)
        self._tag(PUBLISHED, version)
        self._untag(f"{KEPT}{version}")

    def _records(self) -> lance.LanceDataset:
        return self._store.dataset("records")

    def _tags(self, table: str = "records") -> dict[str, int]:
        with self._store.reached():
            return {name: int(tag["version"]) for name, tag in self._store.dataset(table).tags.list().items()}

    def _tag(self, name: str, version: int, table: str = "records") -> None:
        if self._tags(table).get(name) == version:
            return
        tags = self._store.dataset(table).tags
        with self._store.reached():
            try:
                tags.create(name, version)
            except ValueError as error:
                if "already exists" not in str(error):
                    raise
                tags.update(name, version)

    def _untag(self, name: str, table: str = "records") -> None:
        if name in self._tags(table):
            with self._store.reached():
                try:
                    self._store.dataset(table).tags.delete(name)
                except ValueError as error:
                    if "does not exist" not in str(error):  # else another run did it meanwhile
                        raise
