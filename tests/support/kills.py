"""Kill of this process at a chosen step, for the tests of crashes."""

import os
import signal
from collections.abc import Callable
from typing import Any


class Kill:
    """Kills this process by SIGKILL at call number `at` of the watched methods, right before the call or after it."""

    def __init__(self, at: int, after: bool) -> None:
        self.at = at
        self.after = after
        self.steps = 0

    def watch(self, owner: object, *methods: str) -> None:
        """Count each call of these methods of a class, or functions of a module, as a step."""
        for name in methods:
            setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.steps += 1
            due = self.steps == self.at
            if due and not self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = method(*arguments, **named)
            if due:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call
