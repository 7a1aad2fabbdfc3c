"""Tasks on a Dask cluster, by Dask's own client.

Joblib's backend for it waits for ever for a task whose worker has died.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any

from desim.exceptions import DesimError, MissingDependency
from desim.parallel._pool import Lost, Reply, attempt

__all__ = ["DaskPool"]

#: Tasks a core that are handed over, so that no core waits for this process.
AHEAD = 2
#: How often to look whether the scheduler is still there, in seconds.
CHECK = 5.0


class DaskPool:
    """Workers of Dask.

    Parameters
    ----------
    function : callable
        Performs a task.
    jobs : int
        Processes of a cluster on this machine.
    address : str or None
        Where the scheduler is; None starts one.
    """

    def __init__(self, function: Callable[[Any], Any], jobs: int, address: str | None) -> None:
        self._distributed = distributed = _import()
        self._cluster: Any = None
        if address is None:
            self._cluster = distributed.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            )
        try:
            self._client = distributed.Client(address or self._cluster, set_as_default=False)
        except (OSError, ValueError) as error:
            raise DesimError(f"cannot reach a Dask scheduler at {address}: {error}") from error
        self._address = address or "this machine"
        self._function = function
        self._running: dict[Any, int] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()

    def room(self) -> int:
        """Return how many tasks may be handed over at a time."""
        return AHEAD * max(sum(map(int, self._client.ncores().values())), 1)

    def submit(self, number: int, task: Any) -> None:
        """Hand a task over."""
        future = self._client.submit(attempt, self._function, task, pure=False)
        self._running[future] = number
        future.add_done_callback(self._done.put)

    def wait(self) -> Iterable[tuple[int, Reply | Lost]]:
        """Wait for a task and return it."""
        while True:
            try:
                future = self._done.get(timeout=CHECK)
            except Empty:
                if self._client.status != "running":
                    raise DesimError(f"the Dask scheduler at {self._address} is gone") from None
            else:
                break
        return [(self._running.pop(future), self._reply(future))]

    def _reply(self, future: Any) -> Reply | Lost:
        if future.cancelled():
            raise DesimError(f"the Dask scheduler at {self._address} has cancelled a run, or is gone")
        error = future.exception()
        if isinstance(error, self._distributed.KilledWorker):
            return Lost("its Dask workers have ended by themselves, perhaps for lack of memory")
        if error is not None:  # of what surrounds the task, such as a missing module
            return Lost(f"{type(error).__name__}: {error}", is_final=True)
        reply: Reply = future.result()
        return reply

    def close(self) -> None:
        """Cancel what is still being performed; end what was started here."""
        if self._running and self._client.status == "running":
            self._client.cancel(list(self._running), force=True)
        self._running.clear()
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _import() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingDependency(f"the backend dask needs Dask: pip install 'desim[dask]' ({error})") from error
    return distributed
