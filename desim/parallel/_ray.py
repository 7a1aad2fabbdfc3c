"""Tasks on a Ray cluster, by Ray itself.

Its backend for joblib cannot hand outcomes out as they finish, and does not replace a worker that has died.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from desim.exceptions import DesimError, MissingDependency
from desim.parallel._pool import Lost, Reply, attempt

__all__ = ["RayPool"]

#: Memory of a cluster on this machine for arguments and outcomes, in bytes; Ray takes a third of the machine by itself.
OBJECT_STORE = 128 * 2**20
#: Tasks a core that are handed over, so that no core waits for this process.
AHEAD = 2
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}


class RayPool:
    """Workers of Ray.

    Parameters
    ----------
    function : callable
        Performs a task.
    jobs : int
        Processes of a cluster on this machine.
    address : str or None
        Where the cluster is; None starts one. If this process is connected to one already, that one is used.
    """

    def __init__(self, function: Callable[[Any], Any], jobs: int, address: str | None) -> None:
        self._session: str | None = None
        with _environment(_starting() if address is None else {}):
            self._ray = _import()
            self._is_ours = not self._ray.is_initialized()
            if self._is_ours and address is None:
                self._start(jobs)
        if self._is_ours and address is not None:
            self._connect(address)
        self._function = self._ray.put(function)
        self._attempt = self._ray.remote(attempt).options(num_cpus=1, max_retries=0)
        self._running: dict[Any, int] = {}

    def _start(self, jobs: int) -> None:
        try:
            started = self._ray.init(
                address="local", num_cpus=jobs, include_dashboard=False, object_store_memory=OBJECT_STORE, **QUIET
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise DesimError(f"cannot start Ray on this machine: {error}") from error
        self._session = started.address_info["session_dir"]

    def _connect(self, address: str) -> None:
        try:
            self._ray.init(address=address, **QUIET)
        except (OSError, RuntimeError, ValueError) as error:
            raise DesimError(
                f"cannot use the Ray cluster at {address}: {error}; is it running there, and does it want a token "
                "(RAY_AUTH_MODE=token)?"
            ) from error

    def room(self) -> int:
        """Return how many tasks may be handed over at a time."""
        return AHEAD * max(int(self._ray.cluster_resources().get("CPU", 0)), 1)

    def submit(self, number: int, task: Any) -> None:
        """Hand a task over."""
        self._running[self._attempt.remote(self._function, task)] = number

    def wait(self) -> Iterable[tuple[int, Reply | Lost]]:
        """Wait for a task and return it."""
        (reference,), _ = self._ray.wait(list(self._running), num_returns=1)
        number = self._running.pop(reference)
        try:
            reply: Reply = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # of what surrounds the task, such as a missing module
            return [(number, Lost(str(error), is_final=True))]
        except self._ray.exceptions.RayError as error:
            return [(number, Lost(f"its Ray worker has ended by itself ({type(error).__name__}: {_first(error)})"))]
        return [(number, reply)]

    def close(self) -> None:
        """Cancel what is still being performed; end what was started here."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._is_ours:
            self._ray.shutdown()
        if self._session is not None:
            shutil.rmtree(self._session, ignore_errors=True)


def _starting() -> dict[str, str]:
    """Return the environment of a cluster on this machine, whose workers shall find the same modules."""
    return {
        # It listens on the loopback interface only, and reports nothing to anybody.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join(entry or os.curdir for entry in sys.path),
    }


def _import() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingDependency(f"the backend ray needs Ray: pip install 'desim[ray]' ({error})") from error
    return ray


def _first(error: BaseException) -> str:
    return str(error).partition("\n")[0]


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
