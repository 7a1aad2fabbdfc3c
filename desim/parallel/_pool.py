"""What the three kinds of workers have in common."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

__all__ = ["Lost", "Pool", "Refused", "Reply", "attempt", "describe"]


class Refused(NamedTuple):
    """An exception, in a form that reaches another process whatever the exception is made of."""

    kind: str
    message: str
    trace: str
    pickled: bytes | None


class Reply(NamedTuple):
    """What comes back from a worker: an outcome, or why there is none."""

    outcome: Any = None
    refused: Refused | None = None
    is_interrupted: bool = False


class Lost(NamedTuple):
    """A worker has ended with its task, or could not be given it; unless that is final, the task may be tried again."""

    reason: str
    is_final: bool = False


class Pool(Protocol):
    """Workers that perform tasks, each known by a number."""

    def room(self) -> int:
        """Return how many tasks may be submitted and not yet waited for."""

    def submit(self, number: int, task: Any) -> None:
        """Hand a task over."""

    def wait(self) -> Iterable[tuple[int, Reply | Lost]]:
        """Wait until at least one task is done, and return what is done by now."""

    def close(self) -> None:
        """Give up what is still being performed, and let the workers go."""


def attempt(function: Callable[[Any], Any], task: Any) -> Reply:
    """Perform a task in a worker."""
    try:
        return Reply(function(task))
    except (Exception, SystemExit) as error:
        return Reply(refused=describe(error))
    except KeyboardInterrupt:
        return Reply(is_interrupted=True)


def describe(error: BaseException) -> Refused:
    """Return an exception with its traceback, without the line of `attempt`."""
    within = error.__traceback__.tb_next if error.__traceback__ is not None else None
    trace = "".join(traceback.format_exception(type(error), error, within))
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:  # of any kind, as exceptions may be made of anything
        pickled = None
    return Refused(type(error).__name__, str(error), trace, pickled)
