"""Worker pools: processes of this machine, a Ray cluster or a Dask cluster, behind the same four methods.

Joblib's own backends are not sufficient: a process pool breaks when one process dies and does not say which task that
process had, the Dask backend waits forever for such a task, and the Ray backend returns nothing before all tasks are
done. So a local process is an executor of joblib's loky with one worker, and clusters are used through their own
clients.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import shutil
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from desim.exceptions import DesimError, MissingDependency

__all__ = ["DaskPool", "LocalPool", "Lost", "Pool", "RayPool", "Refused", "Reply", "attempt", "refusal"]

#: Seconds after which an idle process ends.
IDLE_TIMEOUT = 300
#: Seconds between two checks by a process whether its parent still exists.
ORPHAN_CHECK = 0.5
#: Environment variables of libraries that would start one thread per core in every process.
THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
#: Seconds within which a task that was submitted is on its way to the process, even on a busy machine.
HANDED_OVER = 5.0
#: Tasks per core that are submitted to a cluster, so that no core waits for this process.
AHEAD = 2
#: Seconds between two checks whether Dask's scheduler still exists.
SCHEDULER_CHECK = 5.0
#: Memory of a local Ray cluster for arguments and outcomes, in bytes; the default is a third of all memory.
OBJECT_STORE = 128 * 2**20
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}


class Refused(NamedTuple):
    """An exception in a form that can be sent to another process, whatever its arguments are."""

    kind: str
    message: str
    trace: str
    pickled: bytes | None


class Reply(NamedTuple):
    """Reply of a worker: an outcome, or the reason why there is none."""

    outcome: Any = None
    refused: Refused | None = None
    is_interrupted: bool = False


class Lost(NamedTuple):
    """Loss of a worker with its task, or failure to submit it; unless it is final, the task may be tried again."""

    reason: str
    is_final: bool = False


class Pool(Protocol):
    """Pool of workers; tasks are identified by numbers."""

    def room(self) -> int:
        """Return the maximum number of submitted tasks that are not yet done."""

    def submit(self, number: int, task: Any) -> None:
        """Submit a task."""

    def wait(self) -> Iterable[tuple[int, Reply | Lost]]:
        """Wait until at least one task is done; return the replies of all tasks that are done."""

    def close(self) -> None:
        """Abandon running tasks and release the workers."""


def attempt(function: Callable[[Any], Any], task: Any) -> Reply:
    """Perform a task in a worker."""
    try:
        return Reply(function(task))
    except (Exception, SystemExit) as error:
        return Reply(refused=refusal(error))
    except KeyboardInterrupt:
        return Reply(is_interrupted=True)


def refusal(error: BaseException) -> Refused:
    """Return an exception with its traceback, without the line of the function that caught it."""
    within = error.__traceback__.tb_next if error.__traceback__ is not None else None
    trace = "".join(traceback.format_exception(type(error), error, within))
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:  # any kind, since exceptions may have arbitrary arguments
        pickled = None
    return Refused(type(error).__name__, str(error), trace, pickled)


def _imported(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        told = f"the backend {extra} needs {extra.capitalize()}: pip install 'desim[{extra}]' ({error})"
        raise MissingDependency(told) from error


# -- this machine ---------------------------------------------------------------------------------

#: Idle processes, by the settings they were started with; starting a process takes as long as many short tasks.
_idle: dict[Any, list[Any]] = {}


class LocalPool:
    """Pool of processes on this machine.

    Parameters
    ----------
    function : callable
        Performs a task.
    jobs : int
        Number of parallel processes.
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
        """Return the maximum number of tasks that may run at a time."""
        return self._jobs

    def submit(self, number: int, task: Any) -> None:
        """Submit a task to an idle process."""
        executor = self._free.pop() if self._free else self._started()
        try:
            future = executor.submit(attempt, self._function, task)
        except RuntimeError:  # the process was killed while idle
            executor = self._started()
            future = executor.submit(attempt, self._function, task)
        self._running[future] = number, executor

    def wait(self) -> Iterable[tuple[int, Reply | Lost]]:
        """Wait for a task and return the replies of all that are done."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda future: self._running[future][0]):
            number, executor = self._running.pop(future)
            reply = _local_reply(future)
            if isinstance(reply, Lost) and not reply.is_final:
                executor.shutdown(wait=False, kill_workers=True)
            else:
                self._free.append(executor)
            yield number, reply

    def close(self) -> None:
        """Kill busy processes; keep the others for later tasks."""
        for future, (_, executor) in self._running.items():
            limit = time.monotonic() + HANDED_OVER
            while not (future.running() or future.done()) and time.monotonic() < limit:
                time.sleep(0.001)  # a thread of loky fails if a task is withdrawn while it hands it over
            executor.shutdown(wait=True, kill_workers=True)
        self._running.clear()

    def _started(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        # loky takes a process that loads torch for a memory leak and replaces it between two tasks; no task is lost.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning, r"joblib\.externals\.loky")
        return ProcessPoolExecutor(
            1, timeout=IDLE_TIMEOUT, env=self._environment, initializer=_watch, initargs=(os.getpid(),)
        )


@atexit.register
def _dismiss(keep: Any = None) -> None:
    """End idle processes, except those started with the given settings."""
    for key in [key for key in _idle if key != keep]:
        for executor in _idle.pop(key):
            executor.shutdown(wait=True, kill_workers=True)


def _local_reply(future: Future[Reply]) -> Reply | Lost:
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, TerminatedWorkerError):
        codes = str(error).rpartition("{")[2].rpartition("}")[0]
        return Lost(f"its process ended by itself ({codes or 'no exit code'}), perhaps for lack of memory")
    cause = f": {error.__cause__}" if isinstance(error, BrokenProcessPool) and error.__cause__ else ""
    return Lost(f"{type(error).__name__}: {error}{cause}", is_final=not isinstance(error, BrokenProcessPool))


def _watch(parent: int) -> None:
    """End this process when its parent no longer exists, even if that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(ORPHAN_CHECK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# -- Ray --------------------------------------------------------------------------------------------


class RayPool:
    """Pool of Ray workers.

    Parameters
    ----------
    function : callable
        Performs a task.
    jobs : int
        Number of processes of a cluster on this machine.
    address : str or None
        Address of the cluster; None starts one. If this process is already connected to a cluster, that one is used.
    """

    def __init__(self, function: Callable[[Any], Any], jobs: int, address: str | None) -> None:
        self._session: str | None = None
        # A local cluster listens on the loopback interface only, sends no usage statistics, and finds our modules.
        surroundings = {
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join(entry or os.curdir for entry in sys.path),
        }
        with _environment(surroundings if address is None else {}):
            self._ray = _imported("ray", "ray")
            self._is_ours = not self._ray.is_initialized()
            if self._is_ours:
                self._connect(jobs, address)
        self._function = self._ray.put(function)
        self._attempt = self._ray.remote(attempt).options(num_cpus=1, max_retries=0)
        self._running: dict[Any, int] = {}

    def _connect(self, jobs: int, address: str | None) -> None:
        own: dict[str, Any] = {"num_cpus": jobs, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        try:
            started = self._ray.init(address=address or "local", **(own if address is None else {}), **QUIET)
        except (OSError, RuntimeError, ValueError) as error:
            if address is None:
                raise DesimError(f"cannot start Ray on this machine: {error}") from error
            raise DesimError(
                f"cannot use the Ray cluster at {address}: {error}; is it running there, and does it require a token "
                "(RAY_AUTH_MODE=token)?"
            ) from error
        if address is None:
            self._session = started.address_info["session_dir"]

    def room(self) -> int:
        """Return the maximum number of tasks that may be submitted at a time."""
        return AHEAD * max(int(self._ray.cluster_resources().get("CPU", 0)), 1)

    def submit(self, number: int, task: Any) -> None:
        """Submit a task."""
        self._running[self._attempt.remote(self._function, task)] = number

    def wait(self) -> Iterable[tuple[int, Reply | Lost]]:
        """Wait for a task and return its reply."""
        (reference,), _ = self._ray.wait(list(self._running), num_returns=1)
        number = self._running.pop(reference)
        try:
            reply: Reply = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # an error outside the task, such as a missing module
            return [(number, Lost(str(error), is_final=True))]
        except self._ray.exceptions.RayError as error:
            told = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            return [(number, Lost(f"its Ray worker ended by itself ({told})"))]
        return [(number, reply)]

    def close(self) -> None:
        """Cancel running tasks; shut down a cluster started here."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._is_ours:
            self._ray.shutdown()
        if self._session is not None:
            shutil.rmtree(self._session, ignore_errors=True)


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


# -- Dask -------------------------------------------------------------------------------------------


class DaskPool:
    """Pool of Dask workers.

    Parameters
    ----------
    function : callable
        Performs a task.
    jobs : int
        Number of processes of a cluster on this machine.
    address : str or None
        Address of the scheduler; None starts a cluster.
    """

    def __init__(self, function: Callable[[Any], Any], jobs: int, address: str | None) -> None:
        distributed = _imported("distributed", "dask")
        self._killed: type[BaseException] = distributed.KilledWorker
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
        """Return the maximum number of tasks that may be submitted at a time."""
        return AHEAD * max(sum(map(int, self._client.ncores().values())), 1)

    def submit(self, number: int, task: Any) -> None:
        """Submit a task."""
        future = self._client.submit(attempt, self._function, task, pure=False)
        self._running[future] = number
        future.add_done_callback(self._done.put)

    def wait(self) -> Iterable[tuple[int, Reply | Lost]]:
        """Wait for a task and return its reply."""
        while True:
            try:
                future = self._done.get(timeout=SCHEDULER_CHECK)
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
        if isinstance(error, self._killed):
            return Lost("its Dask workers ended by themselves, perhaps for lack of memory")
        if error is not None:  # an error outside the task, such as a missing module
            return Lost(f"{type(error).__name__}: {error}", is_final=True)
        reply: Reply = future.result()
        return reply

    def close(self) -> None:
        """Cancel running tasks; shut down a cluster started here."""
        if self._running and self._client.status == "running":
            self._client.cancel(list(self._running), force=True)
        self._running.clear()
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
