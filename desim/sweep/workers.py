"""Independent tasks, performed in local processes or on a cluster; outcomes are returned as they finish."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar, get_args

from desim.checks import check_choice, check_int
from desim.exceptions import DesimError, InvalidConfiguration
from desim.sweep.pools import DaskPool, LocalPool, Lost, Pool, RayPool, Refused, Reply, refusal

__all__ = ["MOST_WORKERS", "Backend", "Failed", "Finished", "WorkerCrashed", "Workers", "run_tasks"]

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")
Backend = Literal["local", "ray", "dask"]
#: Largest number of processes.
MOST_WORKERS = 10_000


class WorkerCrashed(DesimError):
    """The process that performed a task died, and so did that of a second attempt."""


@dataclass(frozen=True)
class Workers:
    """Configuration of the workers that perform tasks.

    Attributes
    ----------
    jobs : int
        Number of parallel processes on this machine; 1 with the backend ``local`` means the current process. A cluster
        given by its address uses all its cores instead.
    backend : {"local", "ray", "dask"}
        Processes of this machine, a Ray cluster or a Dask cluster.
    address : str or None
        Address of the cluster, such as ``"10.0.0.1:6379"`` (Ray), ``"auto"`` (the Ray cluster that this machine
        belongs to) or ``"tcp://10.0.0.1:8786"`` (Dask). None starts one on this machine.
    """

    jobs: int = 2
    backend: Backend = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_int("jobs", self.jobs, least=1, most=MOST_WORKERS)
        check_choice("backend", self.backend, get_args(Backend))
        if self.backend == "local" and self.address is not None:
            raise InvalidConfiguration(
                f"address: got {self.address!r} with backend local, expected backend ray or dask"
            )


@dataclass(frozen=True)
class Finished(Generic[Task, Outcome]):
    """Task that was performed.

    Attributes
    ----------
    task : object
        The task.
    outcome : object
        Return value of the function.
    """

    task: Task
    outcome: Outcome


@dataclass(frozen=True)
class Failed(Generic[Task]):
    """Task that raised an exception, or whose worker died.

    Attributes
    ----------
    task : object
        The task.
    kind : str
        Name of the exception's class.
    message : str
        Message of the exception.
    trace : str
        Traceback as text.
    error : BaseException
        The exception; a :class:`DesimError` with the same message if it could not be transferred.
    """

    task: Task
    kind: str
    message: str
    trace: str
    error: BaseException


def run_tasks(
    function: Callable[[Task], Outcome], tasks: Iterable[Task], workers: Workers
) -> Generator[Finished[Task, Outcome] | Failed[Task], None, None]:
    """Perform independent tasks, and yield their outcomes.

    An exception ends only its own task. If a worker dies, its task is tried once more, alone, after all others. When
    the caller closes the generator, or on Ctrl-C, running tasks are abandoned at once.

    Parameters
    ----------
    function : callable
        Performs a task. Function, tasks and outcomes are pickled, unless they stay in this process.
    tasks : iterable
        Tasks to perform. They are read only when a worker is about to become free.
    workers : Workers
        Configuration of the workers.

    Yields
    ------
    Finished or Failed
        One per task, in the order in which the tasks end.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, here or in a worker.
    MissingDependency
        If Ray or Dask is requested but not installed.
    DesimError
        If the cluster cannot be reached.

    Examples
    --------
    >>> from desim.sweep import Workers, run_tasks
    >>> done = run_tasks(lambda number: 60 // number, [1, 0, 3], Workers(jobs=1))
    >>> [getattr(one, "outcome", None) or one.message for one in done]
    [60, 'integer division or modulo by zero', 20]
    """
    if workers.backend == "local" and workers.jobs == 1:
        yield from (_performed_here(function, task) for task in tasks)
        return
    with closing(_open(function, workers)) as pool:
        yield from _performed(pool, enumerate(tasks))


def _open(function: Callable[[Any], Any], workers: Workers) -> Pool:
    """Return the pool of workers that is configured."""
    if workers.backend == "local":
        return LocalPool(function, workers.jobs)
    return (RayPool if workers.backend == "ray" else DaskPool)(function, workers.jobs, workers.address)


def _performed_here(function: Callable[[Task], Outcome], task: Task) -> Finished[Task, Outcome] | Failed[Task]:
    try:
        return Finished(task, function(task))
    except (Exception, SystemExit) as error:
        refused = refusal(error)
        return Failed(task, refused.kind, refused.message, refused.trace, error)


def _performed(pool: Pool, waiting: Iterator[tuple[int, Any]]) -> Iterator[Finished[Any, Any] | Failed[Any]]:
    """Yield the tasks as they end."""
    running: dict[int, Any] = {}
    suspects: dict[int, Any] = {}
    while True:
        room = pool.room()
        while len(running) < room and (following := next(waiting, None)) is not None:
            number, task = following
            lost = _submit(pool, number, task)
            if lost is None:
                running[number] = task
            else:
                yield _ended(task, lost)
        if not running:
            break
        for number, reply in pool.wait():
            task = running.pop(number)
            if isinstance(reply, Lost) and not reply.is_final:
                suspects[number] = task
            else:
                yield _ended(task, reply)
    for number, task in sorted(suspects.items(), key=itemgetter(0)):
        pool.submit(number, task)  # alone, because its worker may have died from what other tasks used
        ((_, reply),) = pool.wait()
        yield _ended(task, reply)


def _submit(pool: Pool, number: int, task: Any) -> Lost | None:
    """Submit a task, or return why it cannot be submitted; clusters pickle it at once."""
    try:
        pool.submit(number, task)
    except DesimError:
        raise
    except Exception as error:  # any kind, since tasks may contain arbitrary objects
        return Lost(f"it cannot be submitted ({type(error).__name__}: {error})", is_final=True)
    return None


def _ended(task: Any, reply: Reply | Lost) -> Finished[Any, Any] | Failed[Any]:
    if isinstance(reply, Lost):
        error = DesimError(reply.reason) if reply.is_final else WorkerCrashed(f"{reply.reason}, in two attempts")
        return Failed(task, type(error).__name__, str(error), f"{type(error).__name__}: {error}\n", error)
    if reply.is_interrupted:
        raise KeyboardInterrupt
    if reply.refused is None:
        return Finished(task, reply.outcome)
    return Failed(task, reply.refused.kind, reply.refused.message, reply.refused.trace, _error(reply.refused))


def _error(refused: Refused) -> BaseException:
    try:
        if refused.pickled is not None:
            found = pickle.loads(refused.pickled)
            assert isinstance(found, BaseException)
            return found
    except Exception:  # for example a class that only the worker knows
        pass
    return DesimError(f"{refused.kind}: {refused.message}")
