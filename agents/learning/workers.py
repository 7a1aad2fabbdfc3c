"""Collect experience in several processes, each with its own environments and a copy of the policy."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import torch

from desim.agents.learning.experience import Collector, Experience, concatenated
from desim.agents.learning.lanes import Measure
from desim.agents.learning.policy import Policy
from desim.exceptions import DesimError, InvalidConfiguration

__all__ = ["WorkerCollector"]

#: Seconds in which processes end by themselves.
ENDING = 0.3


class WorkerCollector:
    """A :class:`~desim.agents.learning.experience.Collector` whose environments are spread over processes.

    Results depend on the number of processes, because each samples its actions from its own generator.

    Parameters
    ----------
    make_env : callable
        Function that returns a new environment.
    seeds : sequence of numpy.random.SeedSequence
        Seed of each environment.
    rng : numpy.random.Generator
        Generator from which those of the processes are spawned.
    num_workers : int
        Number of processes, at most the number of environments.
    measure : callable, optional
        Function that is called with an environment at the end of an episode and returns measures by name.
    group_size : int
        Number of neighbouring environments with equal seeds.
    compiled : bool
        As in :class:`~desim.agents.learning.experience.Collector`.

    Raises
    ------
    InvalidConfiguration
        If there are fewer environments than processes, or no process.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env[Any, Any]],
        seeds: Sequence[np.random.SeedSequence],
        rng: np.random.Generator,
        num_workers: int,
        *,
        measure: Measure | None = None,
        group_size: int = 1,
        compiled: bool = False,
    ) -> None:
        if not 1 <= num_workers <= len(seeds):
            raise InvalidConfiguration(
                f"num_workers: got {num_workers!r}, expected 1 to {len(seeds)}, the number of environments"
            )
        context = multiprocessing.get_context("spawn")
        bounds = np.linspace(0, len(seeds), num_workers + 1).astype(int)
        self._pipes: list[Connection] = []
        self._processes = []
        for begin, end, generator in zip(bounds[:-1], bounds[1:], rng.spawn(num_workers), strict=True):
            near, far = context.Pipe()
            made = _Sent((make_env, list(seeds[begin:end]), generator, measure, compiled))
            process = context.Process(target=_work, args=(far, made), daemon=True)
            with _uninterrupted():
                process.start()
            far.close()
            self._pipes.append(near)
            self._processes.append(process)
        self._known = False
        self._group_size = group_size

    def _ask(self, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send a request to each worker and wait for all answers."""
        answers = []
        try:
            for pipe, request in zip(self._pipes, requests, strict=True):
                pipe.send(request)
            answers = [pipe.recv() for pipe in self._pipes]
        except (EOFError, OSError) as error:
            raise DesimError(f"a worker process ended unexpectedly ({type(error).__name__})") from error
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    def state(self) -> dict[str, Any]:
        """Return the state of all workers as plain values."""
        return {"workers": self._ask([("state",)] * len(self._pipes))}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state of a collector with the same number of workers.

        Parameters
        ----------
        state : dict
            Result of :meth:`state`.

        Raises
        ------
        InvalidConfiguration
            If the number of workers or environments differs.
        """
        states = state.get("workers", [])
        if len(states) != len(self._pipes):
            raise InvalidConfiguration(f"state: got {len(states)} workers, expected {len(self._pipes)}")
        self._ask([("restore", part) for part in states])

    def collect(self, policy: Policy, num_steps: int) -> Experience:
        """Return experience of a number of steps in every environment."""
        return self._collect("collect", policy, num_steps)

    def collect_episodes(self, policy: Policy, longest: int) -> Experience:
        """Return experience of one episode in every environment."""
        return self._collect("collect_episodes", policy, longest)

    def _collect(self, method: str, policy: Policy, length: int) -> Experience:
        if not self._known:
            sent = _Sent(copy.deepcopy(policy).cpu())  # worker processes act on the CPU
            self._ask([("policy", sent)] * len(self._pipes))
            self._known = True
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in policy.state_dict().items()}
        return concatenated(self._ask([(method, weights, length)] * len(self._pipes)), self._group_size)

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.close()
        end = time.monotonic() + ENDING
        for process in self._processes:
            process.join(max(end - time.monotonic(), 0.0))
            if process.is_alive():  # it still works for a training that was interrupted
                process.kill()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C while processes are started, so that they inherit this and never receive it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)  # None: the handler was not installed from Python


class _Sent:
    """Object in transit to another process; cloudpickle also handles functions defined interactively."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __getstate__(self) -> bytes:
        state: bytes = cloudpickle.dumps(self.content)
        return state

    def __setstate__(self, state: bytes) -> None:
        self.content = cloudpickle.loads(state)


def _work(pipe: Connection, made: _Sent) -> None:
    """Serve requests until the other end is closed; errors are sent back as answers."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the main process handles them
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
    make_env, seeds, rng, measure, compiled = made.content
    failure: Exception | None = None
    try:
        collector = Collector(make_env, seeds, rng, measure=measure, compiled=compiled)
    except Exception as error:
        failure = _told(error)
    policy: Policy | None = None
    while True:
        try:
            name, *arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: Any = failure
            if failure is not None:
                pass
            elif name == "policy":
                policy = arguments[0].content
            elif name == "state":
                answer = collector.state()
            elif name == "restore":
                collector.restore(arguments[0])
            else:
                assert policy is not None
                weights, length = arguments
                policy.load_state_dict({key: torch.from_numpy(array) for key, array in weights.items()})
                answer = getattr(collector, name)(policy, length)
            pipe.send(answer)
        except Exception as error:
            pipe.send(_told(error))


def _told(error: Exception) -> Exception:
    """Return an error that can be pickled, with the traceback as a note."""
    where = traceback.format_exc().rstrip()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = DesimError(f"{type(error).__name__}: {error}")
    error.add_note(f"In a worker process:\n{where}")
    return error
