"""Publishing of record versions to readers, by Lance tags on the records table.

`published` marks the version that is served, and `published-N` the versions kept for a rollback. `rolled-back` marks
the newest version at the time of a rollback, so that a run that changes nothing does not publish again the version
that was just withdrawn.

Readers open other tables too, `schemas.OF_RECORDS`: texts, edges, claims and what was written about them. The version
of each that belongs to records version N has the tag `records-N`. These tags are set before N is served. A reader that
looks up the version first, and then the tables beside it, therefore gets what belongs together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeVar

from findingaid.errors import StoreError
from findingaid.store.schemas import OF_RECORDS, records_problem
from findingaid.store.tags import BELONGS_TO, KEPT, PUBLISHED, ROLLED_BACK, read_tags

if TYPE_CHECKING:
    import lance

    from findingaid.store.store import Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Version:
    """A published version of the records; `written` is its time in ISO 8601, UTC."""

    version: int
    written: str
    records: int
    served: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Publisher:
    """Publisher of a store's records; it keeps `retain` published versions, including the served one."""

    def __init__(self, store: Store, retain: int = 1) -> None:
        self._store = store
        self._retain = retain

    def served(self) -> int | None:
        """Return the version that readers see, or None before the first is published."""
        return self._tags().get(PUBLISHED)

    def mark(self) -> str | None:
        """Return a value that changes with every publish and rollback, and with the store; None before the first.

        The number of the version alone may be the same in a store that was made anew.
        """
        with self._store.damage_errors(), self._store.storage_errors():
            tag = read_tags(self._records()).get(PUBLISHED)
        return f"{tag['version']} {tag['updated_at']}" if tag else None

    def newest(self) -> int:
        """Return the version made by the last commit."""
        return int(self._records().version)

    def current(self) -> bool:
        """Check whether readers see the newest version of every table. They do not if one is lost or damaged."""
        with suppress(StoreError):
            served = self.served()
            if served is None or served != self.newest():
                return False
            newest = self._each(lambda table: self._belonging(table, served) == self._store.dataset(table).version)
            return all(newest.values())
        return False

    def whole(self) -> bool:
        """Check whether every table that belongs to the version that readers see is there."""
        served = self.served()
        return served is not None and None not in self._each(lambda table: self._belonging(table, served)).values()

    def withdrawn(self) -> bool:
        """Check whether a rollback withdrew the newest version and nothing was written since."""
        tags = self._tags()
        return tags.get(ROLLED_BACK) == self.newest() != tags.get(PUBLISHED)

    def behind(self) -> str:
        """Return one line on why readers do not have the newest records; "" if they do. Raises StoreError."""
        if self.current():
            return ""
        if (served := self.served()) is None:
            return "nothing is published yet: run `findingaid index`"
        if self.withdrawn():
            return f"rolled back to version {served}: `findingaid publish` ends it, as does the next change"
        return f"readers have version {served}, what was indexed since is not published: `findingaid index` says why"

    def rolled_back(self) -> int | None:
        """Return the version that was newest at the last rollback; None if something was published since."""
        return self._tags().get(ROLLED_BACK)

    def versions(self) -> list[Version]:
        """Return the published versions that are kept, newest first."""
        return self._store.retried(self._versions)

    def _versions(self) -> list[Version]:
        tags = self._tags()
        wanted = {v for name, v in tags.items() if name == PUBLISHED or name.startswith(KEPT)}
        return [self._version(version, version == tags[PUBLISHED]) for version in sorted(wanted, reverse=True)]

    def _version(self, version: int, served: bool) -> Version:
        records = self._store.dataset("records", version)
        written: Any = records.get_version()["timestamp"]
        return Version(version, written.astimezone(UTC).isoformat(timespec="seconds"), records.count_rows(), served)

    def publish(self, tables: Mapping[str, lance.LanceDataset] | None = None) -> int:
        """Serve the records of `tables`, see `Store.newest_tables`, with those beside them; return the served version.

        By default they are the newest. If a later version of the records is already served, it stays.
        """
        with self._store.lock("publishing"):
            return self._publish(tables or self._store.newest_tables())

    def _publish(self, tables: Mapping[str, lance.LanceDataset]) -> int:
        target, tags = int(tables["records"].version), self._tags()
        served = tags.get(PUBLISHED, target)
        if served > target:  # published by a later run, with its own tables
            return served
        kept = {v for name, v in tags.items() if name.startswith(KEPT)} | {served}
        dropped = sorted(kept - {target}, reverse=True)[max(0, self._retain - 1) :]
        before = self._each(lambda table: self._tag({f"{BELONGS_TO}{target}": int(tables[table].version)}, table=table))
        self._serve(target, tags, [ROLLED_BACK, *(f"{KEPT}{v}" for v in dropped)])
        newest, kept = self.newest(), set(self._tags().values())
        self._each(lambda table: self._untag(table, before[table], range(target, newest + 1), kept))
        return target

    def _each(self, do: Callable[[str], T]) -> dict[str, T]:
        """Call `do` with each of OF_RECORDS, see `Store.each`."""
        return self._store.each(OF_RECORDS, do)

    def _untag(self, table: str, tags: Collection[str], later: Collection[int], kept: Collection[int]) -> None:
        """Remove tags of a table unless their records version is served, about to be served, or kept for a rollback.

        A version `later` than the served one belongs to another run that is about to serve it. If it is later than the
        newest version of the records, it belongs to an earlier table that was lost.
        """
        versions = {name: int(name.removeprefix(BELONGS_TO)) for name in tags}
        unused = [name for name, version in versions.items() if version not in later and version not in kept]
        if unused:
            self._tag({}, unused, table)

    def _belonging(self, table: str, version: int) -> int | None:
        """Return the version of a table that belongs to a version of the records; None if there is none."""
        return self._tags(table).get(f"{BELONGS_TO}{version}")

    def rollback(self, version: int | None = None) -> int:
        """Serve an earlier version, by default the previous one; return it.

        Raises StoreError when it is not kept, and when it has another schema, so that nothing could be searched.
        """
        kept = [v.version for v in self.versions() if not v.served]
        served = self.served()
        earlier = [v for v in kept if served is not None and v < served]
        target = version if version is not None else max(earlier, default=None)
        if target is None or target not in kept:
            which = "an earlier version" if version is None else f"version {version}"
            known = f"Kept: {', '.join(map(str, kept))}" if kept else "Set `retain` to 2 or more to keep some"
            raise StoreError(f"{which} of the records is not kept. {known}")
        if refused := records_problem(self._store.dataset("records", target).schema):
            raise StoreError(f"version {target} has {refused}: serve it with the one that wrote it")
        self.hold()  # first, else the next run would undo a rollback that was killed half-way
        self._serve(target, self._tags())
        return target

    def hold(self) -> None:
        """Prevent the newest version from being published until something is written after it."""
        self._tag({ROLLED_BACK: self.newest()})

    def _serve(self, version: int, tags: Mapping[str, int], drop: Collection[str] = ()) -> None:
        """Serve a version, keep the one that `tags` has as served, and remove the tags in `drop`."""
        served = tags.get(PUBLISHED, version)
        kept = {} if served == version else {f"{KEPT}{served}": served}
        self._tag({**kept, PUBLISHED: version}, [f"{KEPT}{version}", *drop])

    def _records(self) -> lance.LanceDataset:
        return self._store.dataset("records")

    def _tags(self, table: str = "records") -> dict[str, int]:
        with self._store.damage_errors(), self._store.storage_errors():
            return {name: int(tag["version"]) for name, tag in read_tags(self._store.dataset(table)).items()}

    def _tag(self, tags: Mapping[str, int], drop: Collection[str] = (), table: str = "records") -> Collection[str]:
        """Set tags of a table, one after the other, then remove those in `drop`; return those that it had before.

        Another run may do the same.
        """

        def change(dataset: lance.LanceDataset) -> Collection[str]:
            there = {name: tag["version"] for name, tag in read_tags(dataset).items()}
            for name, version in tags.items():
                if name not in there:
                    with _unless("already exists"):
                        dataset.tags.create(name, version)
                        continue
                if (
                    there.get(name) != version or name == PUBLISHED
                ):  # its time tells readers of other tables beside them
                    dataset.tags.update(name, version)
            for name in drop:
                if name in there or name in tags:
                    with _unless("does not exist"):
                        dataset.tags.delete(name)
            return there

        return self._store.change(table, change)  # in `change`, so that the version is not deleted meanwhile


@contextmanager
def _unless(said: str) -> Iterator[None]:
    """Pass over a ValueError that says this: another run was faster."""
    try:
        yield
    except ValueError as error:
        if said not in str(error):
            raise
