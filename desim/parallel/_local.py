"""Processes of this machine, each an executor of joblib's loky with one worker.

A single executor with many workers is broken by the death of one, and does not tell which task it was performing.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from desim.parallel._pool import Lost, Reply, attempt

__all__ = ["LocalPool"]

#: Seconds after which a process that has nothing to do ends.
IDLE_TIMEOUT = 300
#: How often a process looks whether the one that started it is still there, in seconds.
ORPHAN_CHECK = 0.5
#: Libraries that would start a thread a core in every process.
THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

#: Processes that have nothing to do, by what they were started with: starting one takes as long as many short tasks.
_idle: dict[Any, list[Any]] = {}


class LocalPool:
    """Processes that perform tasks.

    Parameters
    ----------
    function : callable
        Performs a task.
    jobs : int
        Processes at a time.
    """

    def __init__(self, function: Callable[[Any], Any], jobs: int) -> None:
        from joblib import cpu_count

        self._function = function
        self._jobs = jobs
        threads = str(max(cpu_count() // jobs, 1))
        self._environment = {name: os.environ.get(name, threads) for name in THREAD_LIMITS}
        self._key = (os.getcwd(), tuple(sys.path), tuple(sorted((os.environ | self._environment).items())))  # noqa: PTH109
        _dismiss(keep=self._key)
        self._free = _idle.setdefault(self._key, [])
        self._running: dict[Future[Reply], tuple[int, Any]] = {}

    def room(self) -> int:
        """Return how many tasks may run at a time."""
        return self._jobs

    def submit(self, number: int, task: Any) -> None:
        """Hand a task to a process that has nothing to do."""
        executor = self._free.pop() if self._free else self._started()
        try:
            future = executor.submit(attempt, self._function, task)
        except RuntimeError:  # it was killed while it had nothing to do
            executor = self._started()
            future = executor.submit(attempt, self._function, task)
        self._running[future] = number, executor

    def wait(self) -> Iterable[tuple[int, Reply | Lost]]:
        """Wait for a task and return all that are done."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda future: self._running[future][0]):
            number, executor = self._running.pop(future)
            reply = _reply(future)
            if isinstance(reply, Lost) and not reply.is_final:
                executor.shutdown(wait=False, kill_workers=True)
            else:
                self._free.append(executor)
            yield number, reply

    def close(self) -> None:
        """Kill the processes that are busy; keep the others for the next tasks."""
        for _, executor in self._running.values():
            executor.shutdown(wait=True, kill_workers=True)
        self._running.clear()

    def _started(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(
            1, timeout=IDLE_TIMEOUT, env=self._environment, initializer=_watch, initargs=(os.getpid(),)
        )


@atexit.register
def _dismiss(keep: Any = None) -> None:
    """End the processes that have nothing to do, but for those that were started with the same."""
    for key in [key for key in _idle if key != keep]:
        for executor in _idle.pop(key):
            executor.shutdown(wait=True, kill_workers=True)


def _reply(future: Future[Reply]) -> Reply | Lost:
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, TerminatedWorkerError):
        codes = str(error).rpartition("{")[2].rpartition("}")[0]
        return Lost(f"its process has ended by itself ({codes or 'no exit code'}), perhaps for lack of memory")
    cause = f": {error.__cause__}" if isinstance(error, BrokenProcessPool) and error.__cause__ else ""
    return Lost(f"{type(error).__name__}: {error}{cause}", is_final=not isinstance(error, BrokenProcessPool))


def _watch(parent: int) -> None:
    """End this process when the one that started it is gone, even if that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(ORPHAN_CHECK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
