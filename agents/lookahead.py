"""Rollout: try each of a few actions by simulation, with a base agent making all later decisions.

At each decision, every candidate action is carried out in a fork without foresight (see
:meth:`desim.Simulation.fork`), in which the base agent then makes all further decisions. The candidate with the best
score is chosen. In terms of dynamic programming, this is one step of policy iteration, by simulation, at the states
that occur (D. P. Bertsekas, J. N. Tsitsiklis and C. Wu, "Rollout algorithms for combinatorial optimization", Journal of
Heuristics 3, 1997).

If agents know everything that will happen, a run never scores worse than the base agent's run from the same state: the
base agent's own action is among the candidates and wins ties, so no decision lowers the score that the previous one
found. There is no such guarantee if jobs arrive later or end earlier than requested.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from desim.checks import check_choice
from desim.core import Agent, Simulation
from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.reprs import NamedRepr

__all__ = ["Lookahead", "Score", "Tally"]

#: Smallest relative improvement over the best score so far; smaller differences count as rounding errors.
RESOLUTION = 1e-9


class Score(NamedTuple):
    """The outcome of a candidate action; smaller is better.

    Attributes
    ----------
    unfinished : int
        Number of known jobs that would never finish. Compared first.
    value : float
        Value of the objective.
    """

    unfinished: int
    value: float

    def beats(self, other: Score) -> bool:
        """Return whether this score is better, by more than a rounding error.

        Parameters
        ----------
        other : Score
            Score to compare with.

        Returns
        -------
        bool
            True if fewer jobs are unfinished or, with equally many, the value is smaller.
        """
        if self.unfinished != other.unfinished:
            return self.unfinished < other.unfinished
        return self.value < other.value - RESOLUTION * abs(other.value)


class Tally(Protocol):
    """The running score of one fork, from its beginning to its end."""

    def is_over(self, best: Score | None) -> bool:
        """Return whether the fork can stop: it has reached its horizon or cannot beat the best score so far."""

    def score(self) -> Score:
        """Return the score of a fork that has ended or can stop."""


class Forking:
    """Agent that simulates forks of the run that it decides in."""

    _fork: Callable[[], Simulation] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy without the run, which a copy of the agent does not decide in: attach another."""
        return vars(self) | {"_fork": None}

    def attach(self, fork: Callable[[], Simulation]) -> None:
        """Store the function that forks the run; called before each run, and of a copy of the agent for its own run.

        Parameters
        ----------
        fork : callable
            Function that returns a simulation in the observed state, without foresight.
        """
        self._fork = fork


class Lookahead(Forking, NamedRepr, ABC):
    """Base class of rollout agents; subclasses define the candidates and objectives of a problem.

    Parameters
    ----------
    base : Agent
        Agent that makes all decisions in a fork after the first. It is copied for each fork with ``copy.deepcopy``, so
        it must own its state. If it has a ``reset``, that is called before the next decision whenever another action
        than its own was chosen.
    objective : str
        Name of the quantity to minimize.
    objectives : sequence of str
        Names of the possible objectives; the first is the default, which the agent's name omits.

    Attributes
    ----------
    name : str
        The objective and the name of the base agent, such as ``"rollout:easy-sjf"``.
    num_forks : int
        Number of candidates tried in this run.
    num_improved : int
        Number of decisions of this run that differ from the base agent's.

    Raises
    ------
    InvalidConfiguration
        If the objective is unknown, or the base agent looks ahead itself.
    """

    def __init__(self, base: Agent, objective: str, objectives: Sequence[str]) -> None:
        self.base = base
        self.objective = check_choice("objective", objective, objectives)
        kind = "rollout" if objective == objectives[0] else f"rollout-{objective}"
        self.name = f"{kind}:{getattr(base, 'name', type(base).__name__)}"
        if hasattr(base, "attach"):
            raise InvalidConfiguration(f"{self.name}: the base agent looks ahead itself, which forks do not support")
        self.num_forks = self.num_improved = 0
        self._blank: Agent | None = None

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a new run, also for the base agent.

        Parameters
        ----------
        info : dict
            Description of the problem.
        rng : numpy.random.Generator
            Random stream of the agent, which passes it to the base agent.
        """
        self.num_forks = self.num_improved = 0
        self._info, self._rng = info, rng
        self._reset(self.base, rng)
        self._blank = copy.deepcopy(self.base)

    def act(self, observation: Any) -> Any:
        """Return the candidate action with the best score.

        Parameters
        ----------
        observation : object
            Current observation.

        Returns
        -------
        object
            The base agent's action, unless another one scores better.

        Raises
        ------
        InvalidConfiguration
            If the agent was not attached to a run.
        """
        own = chosen = self.propose(observation)
        others = self.alternatives(observation, own)
        if not others:
            return own
        best = self._try(observation, own, None)
        assert best is not None
        for action in others:
            score = self._try(observation, action, best)
            if score is not None and score.beats(best):
                chosen, best = action, score
        if chosen is not own:
            self.num_improved += 1
            self._reset(self.base, self._rng)
        return chosen

    def propose(self, observation: Any) -> Any:
        """Return the base agent's action, without its conditions for the next decision.

        Parameters
        ----------
        observation : object
            Current observation.

        Returns
        -------
        object
            The first candidate action.
        """
        return self.base.act(observation)

    def _try(self, observation: Any, action: Any, best: Score | None) -> Score | None:
        """Return the score of an action (the base agent's if ``best`` is None); None if it is infeasible."""
        if self._fork is None or self._blank is None:
            raise InvalidConfiguration(
                f"{self.name}: got no forks before the first decision; try desim.simulate, or desim.core.prepare_agent"
            )
        self.num_forks += 1
        simulation = self._fork()
        decision = simulation.advance()
        assert decision is not None
        base = self._copy_of_base(observation, decision.observation) if best is None else self._copy_of_blank()
        tally = self.tally(simulation)
        try:
            decision.answer(action)
            while (decision := simulation.advance()) is not None and not tally.is_over(best):
                decision.answer(base.act(decision.observation))
        except InfeasibleAction:
            if best is None:
                raise
            return None
        return tally.score()

    def _copy_of_base(self, observation: Any, twin: Any) -> Agent:
        """Return a copy of the base agent with its memory, in which the fork replaces the run."""
        pairs = [(observation, twin), *self.twins(observation, twin)]
        return copy.deepcopy(self.base, {id(ours): theirs for ours, theirs in pairs})

    def _copy_of_blank(self) -> Agent:
        """Return a copy of the base agent without its memory."""
        base = copy.deepcopy(self._blank)
        assert base is not None
        self._reset(base, copy.deepcopy(self._rng))
        return base

    def _reset(self, base: Agent, rng: np.random.Generator) -> None:
        reset = getattr(base, "reset", None)
        if reset is not None:
            reset(self._info, rng)

    @abstractmethod
    def alternatives(self, observation: Any, action: Any) -> list[Any]:
        """Return the actions to try besides the base agent's; empty if there is no choice.

        Parameters
        ----------
        observation : object
            Current observation.
        action : object
            The base agent's action.

        Returns
        -------
        list of object
            Actions in the order in which they are tried; the first of equal scores wins.
        """

    @abstractmethod
    def tally(self, simulation: Simulation) -> Tally:
        """Return the object that computes the score of a fork.

        Parameters
        ----------
        simulation : Simulation
            The fork, before its first event.

        Returns
        -------
        Tally
            Running score, registered as a listener of the fork.
        """

    def twins(self, observation: Any, twin: Any) -> Iterable[tuple[Any, Any]]:
        """Return the objects of a run that agents may remember, each with its counterpart in a fork.

        Parameters
        ----------
        observation : object
            Observation of the run.
        twin : object
            Observation of the fork.

        Returns
        -------
        iterable of (object, object)
            Pairs (original, counterpart); an object that does not change may be its own counterpart.
        """
        return ()
