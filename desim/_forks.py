"""How a simulation is copied: by replaying its decisions, onto its own system or onto a changed one."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

from desim.exceptions import DesimError, InfeasibleAction, InvalidConfiguration

if TYPE_CHECKING:
    from desim.core import Decision, Simulation
    from desim.problems.base import Problem

__all__ = ["fork"]


def fork(original: Simulation, *, problem: Problem | None, foresight: bool) -> Simulation:
    """Return a copy of a simulation; see :meth:`Simulation.fork`."""
    _require_replayable(original, is_changed=problem is not None, foresight=foresight)
    configuration = copy.copy(original._configuration if problem is None else problem)
    configuration.check_replayable()
    configuration.listeners = {event: [] for event in configuration.events}
    configuration.listening = False
    other = type(original)(configuration, seed=original.seed, until=original.until)
    _replay(original, other)
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


def _replay(original: Simulation, other: Simulation) -> None:
    """Bring a new simulation to the state of another one, by giving it the same answers at the same times."""
    assert original.actions is not None
    assert original._answered_at is not None
    times = original._answered_at
    for number, (action, time) in enumerate(zip(original.actions, times, strict=True)):
        decision = _decision(other, number, time)
        if number in original._forgotten:
            _forget_future(other)
        decision.answer(action)
    if original._pending:
        _decision(other, len(times), original.env.now)
        if len(times) in original._forgotten:
            _forget_future(other)


def _forget_future(simulation: Simulation) -> None:
    """Let a copy go on as far as its agent can know at the decision that is due."""
    assert simulation.actions is not None
    simulation.problem.forget_future()
    simulation.until = math.inf
    simulation._forgotten = (*simulation._forgotten, len(simulation.actions))


def _decision(other: Simulation, number: int, time: float) -> Decision:
    """Return the decision with a number, which must be due at a time."""
    what = f"the replay differs from the run: decision {number + 1} was due at {time} s, and now"
    hint = "the workload or a process is not reproducible, or the problem has another past"
    try:
        decision = other.advance()
    except InfeasibleAction as error:
        raise DesimError(f"{what} what was answered before cannot be carried out ({error}); {hint}") from error
    if decision is None:
        raise DesimError(f"{what} no decision is; {hint}")
    if other.env.now != time:
        raise DesimError(f"{what} at {other.env.now} s; {hint}")
    return decision
