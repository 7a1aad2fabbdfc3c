"""Independent copies of a simulation, made by copying its state or, where that is impossible, by replaying its past.

A copy is a round trip through :mod:`pickle` in memory, which preserves references between objects. Unchanging objects
are shared instead: the configuration with its workload, objects of the classes that a problem lists as ``constants``,
and recorded rows. Generators cannot be copied; a process continues in the copy if its :class:`~desim.core.Resumable` is
known. Objects of classes outside desim are not copied either, because other references to them are unknown.
"""

from __future__ import annotations

import inspect
import io
import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from copy import copy, deepcopy
from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import Enum
from itertools import count
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import simpy
from simpy.events import PENDING

from desim.exceptions import DesimError, InfeasibleAction, InvalidConfiguration

if TYPE_CHECKING:
    from desim.core import Decision, Simulation
    from desim.problem import Problem

__all__ = ["FlatDict", "fork", "fork_with", "without_listeners"]

Carried = TypeVar("Carried")


class FlatDict(dict[Any, Any]):
    """Dictionary of numbers, text and objects that never change, which a fork copies as a whole: one step for all."""


def fork(original: Simulation, *, problem: Problem | None, foresight: bool) -> Simulation:
    """Return an independent simulation in the same state; implements :meth:`desim.Simulation.fork`.

    Parameters
    ----------
    original : Simulation
        Simulation to fork.
    problem : Problem or None
        Problem to continue with; None keeps that of the original.
    foresight : bool
        Whether the copy has the future of the original.

    Returns
    -------
    Simulation
        The fork.

    Raises
    ------
    InvalidConfiguration
        If the simulation cannot be forked in the requested way.
    DesimError
        If a replay differs from the run.
    """
    _require_forkable(original, is_changed=problem is not None, foresight=foresight)
    configuration = without_listeners(original._configuration if problem is None else problem)
    copied = _copied(original, configuration) if problem is None else None
    if copied is not None:
        other = copied[0]
    else:
        other = type(original)(configuration, seed=original.seed, until=original.until)
        other.replayed = True
        _replay(original, other)
    is_due = bool(other._pending) and other.advance() is not None  # a run may have ended with a decision unanswered
    if not (is_due or (problem is None and foresight)):
        raise InvalidConfiguration(f"the run has ended at time {other.env.now} s, so it has no other future")
    if not foresight:
        _forget_future(other)
    return other


def fork_with(
    original: Simulation, carried: Carried, memo: Mapping[int, Any] | None = None, *, num_listeners: int = 0
) -> tuple[Simulation, Carried] | None:
    """Return an independent simulation in the same state, and copies of objects that refer to the original.

    Parameters
    ----------
    original : Simulation
        Simulation to copy. It need not log its actions, because nothing is replayed.
    carried : object
        Objects to copy by :func:`copy.deepcopy`. Wherever they refer to a part of the original, their copies refer to
        the same part of the fork.
    memo : mapping, optional
        What the copies refer to instead of further objects, by the ids of these objects.
    num_listeners : int
        Number of listeners that belong to the carried objects. The fork has no listeners.

    Returns
    -------
    tuple of (Simulation, object), or None
        The fork and the copies; None if the state cannot be copied, but only replayed.
    """
    found = _copied(original, without_listeners(original._configuration), num_listeners)
    if found is None:
        return None
    other, parts = found
    return other, deepcopy(carried, {**parts(), **(memo or {})})


def without_listeners(problem: Problem) -> Problem:
    """Return a configuration for a fork: the same without listeners; raise InvalidConfiguration for iterators."""
    configuration = copy(problem)
    configuration.check_replayable()
    configuration.listeners = {event: [] for event in configuration.events}
    configuration.listening = False
    return configuration


class _Unknown(Exception):
    """Raised if an object cannot be copied."""


class _Copier(pickle.Pickler):
    """Pickler of a simulation.

    Shared objects and their twins are entered into the memos of both sides in advance, where pickle looks first.
    Testing for each object whether it is shared would take longer than the rest of the copy.
    """

    def __init__(self, file: io.BytesIO, twins: list[tuple[Any, Any]], constants: tuple[type, ...]) -> None:
        super().__init__(file, protocol=5)
        self.constants = constants
        self.shared: list[Any] = []  # constants, by the numbers that represent them
        self.find = self.shared.__getitem__
        known = {id(thing): (thing, twin) for thing, twin in [(self.find, self.find), *twins]}
        self.memo = {key: (number, thing) for number, (key, (thing, _)) in enumerate(known.items())}
        self.twins = [twin for _, twin in known.values()]

    def reducer_override(self, thing: Any) -> Any:
        """Return how an object is rebuilt."""
        kind = type(thing)
        if kind is FlatDict or (kind is np.ndarray and not thing.dtype.hasobject):
            self.shared.append(thing.copy() if kind is np.ndarray else FlatDict(thing))
            return self.find, (len(self.shared) - 1,)
        if kind in self.constants or (kind is FunctionType and thing.__closure__ is None):
            self.shared.append(thing)
            return self.find, (len(self.shared) - 1,)
        if isinstance(thing, simpy.Process):
            return _new, (kind,), _state_of(thing), None, None, _set_process
        if kind is simpy.Environment:
            return simpy.Environment, (), (thing._now, thing._queue, next(thing._eid) + 1), None, None, _set_environment
        if kind.__module__.startswith("desim.") and not issubclass(kind, tuple | Enum):
            state = thing.__getstate__() if hasattr(kind, "__setstate__") else object.__getstate__(thing)
            return __newobj__, (kind,), state
        if kind is FunctionType or (issubclass(kind, Iterator) and kind is not count):
            raise _Unknown(f"{thing!r} has a state that cannot be read")
        if issubclass(kind, type) or kind.__module__.startswith(_COPIED):
            return NotImplemented
        raise _Unknown(f"{kind.__qualname__} is a class outside desim")


class _Rebuilder(pickle.Unpickler):
    """Unpickler whose ``persistent_load`` can be set; since Python 3.13 that of the base class is read-only."""


def _rebuilt(taken_apart: bytes, twins: list[Any]) -> tuple[Any, _Rebuilder]:
    """Return the simulation rebuilt from pickled bytes, and its maker; the first entries of the memo are the twins."""
    fill_memo = b"".join(
        pickle.BININT + number.to_bytes(4, "little") + pickle.BINPERSID + pickle.MEMOIZE + pickle.POP
        for number in range(len(twins))
    )
    rebuilder = _Rebuilder(io.BytesIO(fill_memo + pickle.NONE + pickle.STOP + taken_apart))
    rebuilder.persistent_load = twins.__getitem__  # type: ignore[method-assign]
    rebuilder.load()  # keeps the memo for the next load
    return rebuilder.load(), rebuilder


_COPIED = ("builtins", "collections", "desim.", "functools", "itertools", "numpy", "operator", "simpy", "_cython")


def _copied(
    original: Simulation, configuration: Problem, num_listeners: int = 0
) -> tuple[Simulation, Callable[[], dict[int, Any]]] | None:
    """Return a copy in the same state; None if copying is impossible.

    The function returns the parts of the copy by the ids of the parts of the original; call it at most once, at once.
    """
    problem, records = original.problem, original.records.copied()
    if problem.processes and sum(map(len, problem.listeners.values())) > num_listeners:
        return None  # a process may be among the listeners
    twins: list[tuple[Any, Any]] = [(value, value) for value in vars(original._configuration).values()]
    twins += [(table, records.tables[name]) for name, table in original.records.tables.items()]
    twins += [(thing, deepcopy(thing)) for thing in problem.user_objects()]
    twins += [
        (PENDING, PENDING),
        (original._configuration, configuration),
        (original.records, records),
        (original.actions, copy(original.actions)),
        (original._answered_at, copy(original._answered_at)),
        (problem.listeners, {event: [] for event in problem.events}),
    ]
    file = io.BytesIO()
    copier = _Copier(file, twins, problem.constants)
    try:
        copier.dump(original)
    except (_Unknown, TypeError, AttributeError, pickle.PicklingError):  # generators, open files, local classes, ...
        return None
    other, rebuilder = _rebuilt(file.getvalue(), copier.twins)
    other.problem.listening = other.replayed = False

    def parts() -> dict[int, Any]:
        copies = rebuilder.memo.copy()
        return {key: copies[number] for key, (number, _) in copier.memo.copy().items()}

    return other, parts


def _new(kind: Any) -> Any:
    return kind.__new__(kind)


def _state_of(process: simpy.Process) -> tuple[Any, ...]:
    """Return the state of a process."""
    if not process.is_alive:
        return process.env, process.callbacks, None, None, process._ok, process._value
    source = getattr(process, "source", None)
    if source is None:
        raise _Unknown(f"process {process.name}")
    begun = inspect.getgeneratorstate(process._generator) != inspect.GEN_CREATED
    return process.env, process.callbacks, source, begun, None, process._target


def _set_process(process: Any, state: tuple[Any, ...]) -> None:
    process.env, process.callbacks, source, begun, ok, value = state
    if source is None:
        process._ok, process._value, process._target = ok, value, None
        return
    process.source = source
    process._value, process._target = PENDING, value
    process._generator = source.resume() if begun else source.run()
    if begun:
        next(process._generator)  # advance to the event that the process waits for


def _set_environment(env: simpy.Environment, state: tuple[Any, ...]) -> None:
    env._now, env._queue, number = state
    env._eid = count(number)


def _require_forkable(original: Simulation, *, is_changed: bool, foresight: bool) -> None:
    """Raise InvalidConfiguration unless a simulation can be forked in the requested way."""
    if original.actions is None:
        raise InvalidConfiguration("a simulation without logged actions cannot be forked; pass log_actions=True")
    if is_changed and not foresight:
        raise InvalidConfiguration("problem and foresight=False cannot be combined; pass only one of them to fork")
    if (is_changed or not foresight) and not original._pending:
        raise InvalidConfiguration(
            f"no decision is due at time {original.env.now}: a fork without foresight or onto another problem needs "
            "one, so call advance() first"
        )


def _replay(original: Simulation, other: Simulation) -> None:
    """Bring a new simulation to the state of another by repeating the same answers at the same times."""
    assert original.actions is not None
    assert original._answered_at is not None
    times = original._answered_at
    for number, (action, time) in enumerate(zip(original.actions, times, strict=True)):
        decision = _decision(other, number, time)
        if number in original._forgotten:
            _forget_future(other)
        if decision is None:
            raise _different(number, time, "the run is at its end")
        try:
            decision.answer(action)
        except InfeasibleAction as error:
            raise _not_possible(number, time, error) from error
    if original._pending:
        _decision(other, len(times), original.env.now)
        if len(times) in original._forgotten:
            _forget_future(other)


def _forget_future(simulation: Simulation) -> None:
    """Drop the future that the agent of a copy cannot know at the current decision."""
    assert simulation.actions is not None
    simulation.problem.drop_future()
    simulation.until = math.inf
    simulation._forgotten = (*simulation._forgotten, len(simulation.actions))


def _different(number: int, time: float, instead: str) -> DesimError:
    """Return the error for a replay that differs from the run."""
    return DesimError(
        f"the replay differs from the run: decision {number + 1} was due at {time} s, and now {instead}; the "
        "workload or a process is not reproducible, or the problem has another past"
    )


def _not_possible(number: int, time: float, error: InfeasibleAction) -> DesimError:
    """Return the error for a replay in which an answer is infeasible."""
    return _different(number, time, f"the earlier answer cannot be carried out ({error})")


def _decision(other: Simulation, number: int, time: float) -> Decision | None:
    """Return the decision of a given number, which must be due at a given time; None if the run ends before it."""
    try:
        decision = other.advance()
    except InfeasibleAction as error:
        raise _not_possible(number, time, error) from error
    if decision is None and not other._pending:
        raise _different(number, time, "no decision is")
    if other.env.now != time:
        raise _different(number, time, f"at {other.env.now} s")
    return decision
