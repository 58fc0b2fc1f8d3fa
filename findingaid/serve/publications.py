"""Events of new published versions, for the clients that subscribed to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated, ServerEvent

from findingaid.errors import FindingAidError
from findingaid.serve.limits import WorkerPool
from findingaid.serve.view import SCHEME, View

log = logging.getLogger("findingaid.serve")

PUBLISHED_URI = f"{SCHEME}published"
"""Resource with the published version. It changes when a run or a rollback changes what readers see."""

SECONDS = 1.0
"""Seconds between two looks at the published version, while a client is subscribed."""


class Publications(InMemorySubscriptionBus):
    """Bus of events that looks for a new published version while it has subscribers."""

    def __init__(self, view: View, work: WorkerPool) -> None:
        super().__init__()
        self._view, self._work = view, work
        self._subscribed: set[object] = set()
        self._watching: asyncio.Task[None] | None = None

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        leave, subscriber = super().subscribe(listener), object()
        self._subscribed.add(subscriber)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

        def unsubscribe() -> None:
            leave()
            self._subscribed.discard(subscriber)
            if self._watching and not self._subscribed:
                self._watching.cancel()
                self._watching = None

        return unsubscribe

    async def _watch(self) -> None:
        known = await self._served()
        while True:
            await asyncio.sleep(SECONDS)
            served = await self._served()
            if served is not None and served != known:
                known = served
                await self.publish(ResourceUpdated(uri=PUBLISHED_URI))
                await self.publish(ResourcesListChanged())

    async def _served(self) -> str | None:
        """Return the mark of what is published; None if nothing is yet, or if the store cannot be reached now."""
        try:
            return await self._work.run(self._view.aid.publisher.mark, "publications")
        except FindingAidError as error:
            log.info("published version unknown: %s", error)
            return None
