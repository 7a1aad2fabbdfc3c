"""Life cycle of an executor as a SimPy process: idle, receiving, running, down."""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import Any, Protocol, TypeVar

import simpy

from desim.core import RESUMED, at, start_process

__all__ = ["ExecutorProcess", "ExecutorStatus"]

Item = TypeVar("Item")


class ExecutorStatus(Enum):
    """Current activity of an executor."""

    IDLE = "idle"
    RECEIVING = "receiving"
    RUNNING = "running"
    DOWN = "down"


class Host(Protocol[Item]):
    """What an executor needs of the system that contains it."""

    def next_item(self, executor: int) -> Item | None:
        """Return the item to run next; None if there is none."""

    def start_time(self, item: Item) -> float | None:
        """Return when an item can start, in seconds; None if that is not known yet."""

    def begin(self, item: Item, start: float) -> float:
        """Start the next item at the announced time; return when it will finish, in seconds."""

    def complete(self, item: Item) -> None:
        """Handle the completion of an item."""


class ExecutorProcess:
    """Executor that runs one item after another, each as soon as it can start.

    Parameters
    ----------
    env : simpy.Environment
        Environment of the process.
    host : Host
        System that provides the items.
    executor : int
        Number of the executor.

    Attributes
    ----------
    status : ExecutorStatus
        Current activity.
    """

    def __init__(self, env: simpy.Environment, host: Host[Item], executor: int) -> None:
        self.status = ExecutorStatus.IDLE
        self._env = env
        self._host = host
        self._executor = executor
        self._pause: simpy.Event | None = None
        self._interrupted = False
        self._item: Any = None  # the running item
        self._process = start_process(env, self)

    def run(self) -> Generator[simpy.Event, None, None]:
        """Return the process from its beginning."""
        return self._live(waits=False)

    def resume(self) -> Generator[simpy.Event, None, None]:
        """Return the process from the point where it waits now."""
        return self._live(waits=True)

    def _live(self, *, waits: bool) -> Generator[simpy.Event, None, None]:
        while True:
            try:
                if waits:
                    waits = False
                    yield RESUMED
                else:
                    yield self._go_on()
                if self.status is ExecutorStatus.RUNNING:
                    self._finish()
            except simpy.Interrupt:
                self._interrupted = False

    def _finish(self) -> None:
        item, self._item = self._item, None
        self.status = ExecutorStatus.IDLE
        self._host.complete(item)

    def _go_on(self) -> simpy.Event:
        """Start the next activity; return the event that the process then waits for."""
        env, host = self._env, self._host
        if self.status is ExecutorStatus.DOWN:
            return self._until_told()
        item = host.next_item(self._executor)
        if item is None:
            self.status = ExecutorStatus.IDLE
            return self._until_told()
        start = host.start_time(item)
        if start is None or start > env.now:
            self.status = ExecutorStatus.RECEIVING
            return self._until_told() if start is None else at(env, start)  # other events may have to happen first
        self.status, self._item = ExecutorStatus.RUNNING, item
        return at(env, max(host.begin(item, start), env.now))

    def _until_told(self) -> simpy.Event:
        self._pause = pause = simpy.Event(self._env)
        return pause

    @property
    def next_event(self) -> simpy.Event:
        """Event that the process waits for."""
        event: simpy.Event = self._process.target
        return event

    def look_again(self) -> None:
        """Notify an executor that is not running that its next item, or the item's start time, may have changed."""
        if self._pause is not None:
            pause, self._pause = self._pause, None
            pause.succeed()
        elif self.status is ExecutorStatus.RECEIVING:
            self._interrupt()

    def fail(self) -> None:
        """Go down, interrupting any activity."""
        working = self.status in (ExecutorStatus.RECEIVING, ExecutorStatus.RUNNING)
        self.status = ExecutorStatus.DOWN
        if working and self._pause is None:
            self._interrupt()

    def repair(self) -> None:
        """Come back up."""
        self.status = ExecutorStatus.IDLE
        self.look_again()

    def _interrupt(self) -> None:
        if not self._interrupted:
            self._interrupted = True
            self._process.interrupt()
