"""How a simulation is copied: by replaying its decisions, onto its own system or onto a changed one."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

from desim.exceptions import DesimError, InfeasibleAction, InvalidConfiguration

if TYPE_CHECKING:
    from desim.core import Decision, Simulation
    from desim.problem import Problem

__all__ = ["fork"]


def fork(original: Simulation, *, problem: Problem | None, foresight: bool) -> Simulation:
    """Return a copy of a simulation; see :meth:`Simulation.fork`."""
    _require_replayable(original, is_changed=problem is not None, foresight=foresight)
    configuration = copy.copy(original._configuration if problem is None else problem)
    configuration.check_replayable()
    configuration.listeners = {event: [] for event in configuration.events}
    configuration.listening = False
    other = type(original)(configuration, seed=original.seed, until=original.until)
    is_due = _replay(original, other)
    if not (is_due or (problem is None and foresight)):
        raise InvalidConfiguration(f"the run has ended at time {other.env.now} s: it has no other future")
    if not foresight:
        _forget_future(other)
    return other


def _require_replayable(original: Simulation, *, is_changed: bool, foresight: bool) -> None:
    """Raise InvalidConfiguration unless a simulation can be copied in the way that is asked for."""
    if original.actions is None:
        raise InvalidConfiguration("a simulation without logged actions cannot be forked: pass log_actions=True")
    if is_changed and not foresight:
        raise InvalidConfiguration("a fork has a changed future or none that is known: pass problem or foresight=False")
    if (is_changed or not foresight) and not original._pending:
        raise InvalidConfiguration(
            f"no decision is due at time {original.env.now}: a fork without foresight or onto another problem begins "
            "where one is, so call advance() first"
        )


def _replay(original: Simulation, other: Simulation) -> bool:
    """Bring a new simulation to the state of another one, by giving it the same answers at the same times.

    Return whether a decision is due then.
    """
    assert original.actions is not None
    assert original._answered_at is not None
    times = original._answered_at
    for number, (action, time) in enumerate(zip(original.actions, times, strict=True)):
        decision = _decision(other, number, time)
        if number in original._forgotten:
            _forget_future(other)
        if decision is None:
            raise _different(number, time, "the run is at its end")
        decision.answer(action)
    if not original._pending:
        return False
    decision = _decision(other, len(times), original.env.now)
    if len(times) in original._forgotten:
        _forget_future(other)
    return decision is not None


def _forget_future(simulation: Simulation) -> None:
    """Let a copy go on as far as its agent can know at the decision that is due."""
    assert simulation.actions is not None
    simulation.problem.forget_future()
    simulation.until = math.inf
    simulation._forgotten = (*simulation._forgotten, len(simulation.actions))


def _different(number: int, time: float, instead: str) -> DesimError:
    """Return the error of a replay that differs from the run."""
    return DesimError(
        f"the replay differs from the run: decision {number + 1} was due at {time} s, and now {instead}; the "
        "workload or a process is not reproducible, or the problem has another past"
    )


def _decision(other: Simulation, number: int, time: float) -> Decision | None:
    """Return the decision with a number, which must be due at a time; None if the run ends with it unanswered."""
    try:
        decision = other.advance()
    except InfeasibleAction as error:
        raise _different(number, time, f"what was answered before cannot be carried out ({error})") from error
    if decision is None and not other._pending:
        raise _different(number, time, "no decision is")
    if other.env.now != time:
        raise _different(number, time, f"at {other.env.now} s")
    return decision
