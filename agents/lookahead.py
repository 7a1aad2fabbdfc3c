"""Policy improvement by simulation: try each of a few actions, and let a base agent do the rest.

At each decision every candidate action is carried out in a fork without foresight, see :meth:`desim.Simulation.fork`,
in which the base agent then answers all further decisions. What scores best is what is done. In the words of dynamic
programming: one step of policy iteration, by simulation, at the states that occur (D. P. Bertsekas, J. N. Tsitsiklis
and C. Wu, "Rollout algorithms for combinatorial optimization", Journal of Heuristics 3, 1997).

Where agents know all that will happen, the run scores no worse than the base agent's from the same state: the base
agent's own action is among the candidates and wins ties, so that every decision finds at least the score for which the
one before was made. Where jobs arrive later, or end earlier than requested, nothing of the kind holds.
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

#: By what part of itself a score has to be better than that of the base agent's action: rounding is no improvement.
RESOLUTION = 1e-9


class Score(NamedTuple):
    """What a candidate has led to; the smaller the better.

    Attributes
    ----------
    unfinished : int
        Jobs that are known and would never be done. They count first.
    value : float
        The objective.
    """

    unfinished: int
    value: float

    def beats(self, other: Score) -> bool:
        """Tell whether it is better, by more than rounding.

        Parameters
        ----------
        other : Score
            What it is compared with.

        Returns
        -------
        bool
            Whether fewer jobs are left or, if as many are, the value is smaller.
        """
        if self.unfinished != other.unfinished:
            return self.unfinished < other.unfinished
        return self.value < other.value - RESOLUTION * abs(other.value)


class Tally(Protocol):
    """Keeps the score of one fork, from its beginning to its end."""

    def is_over(self, best: Score | None) -> bool:
        """Tell whether the fork need not go on: its horizon is reached, or it cannot beat the best score so far."""

    def score(self) -> Score:
        """Return the score, now that the fork has ended or is over."""


class Lookahead(NamedRepr, ABC):
    """Base class of the rollout agents; a problem has its own candidates and objectives.

    Parameters
    ----------
    base : Agent
        Answers all decisions in the forks but the first. It is copied for each fork with ``copy.deepcopy``, so what it
        remembers must be its own. If it has a ``reset``, that is called with the next decision to come whenever
        another action than its own has been taken.

    objective : str
        What is to be small.
    objectives : sequence of str
        What there is to choose from, first that of agents whose name does not tell it.

    Attributes
    ----------
    name : str
        The objective and the name of the base agent, such as ``"rollout:easy-sjf"``.
    num_forks : int
        Candidates that were tried in this run.
    num_improved : int
        Decisions of this run that are not the base agent's.

    Raises
    ------
    InvalidConfiguration
        If there is no such objective, or the base agent looks ahead itself.
    """

    def __init__(self, base: Agent, objective: str, objectives: Sequence[str]) -> None:
        self.base = base
        self.objective = check_choice("objective", objective, objectives)
        kind = "rollout" if objective == objectives[0] else f"rollout-{objective}"
        self.name = f"{kind}:{getattr(base, 'name', type(base).__name__)}"
        if hasattr(base, "attach"):
            raise InvalidConfiguration(f"{self.name}: the base agent looks ahead itself, and forks are not given forks")
        self.num_forks = self.num_improved = 0
        self._fork: Callable[[], Simulation] | None = None
        self._blank: Agent | None = None

    def attach(self, fork: Callable[[], Simulation]) -> None:
        """Learn how the system can be copied as far as it is known; called before each run.

        Parameters
        ----------
        fork : callable
            Returns a simulation in the state that is observed, without foresight.
        """
        self._fork = fork

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a new run, of the base agent too.

        Parameters
        ----------
        info : dict
            The description of the problem.
        rng : numpy.random.Generator
            The agent's random stream, for the base agent.
        """
        self.num_forks = self.num_improved = 0
        self._info, self._rng = info, rng
        self._reset(self.base, rng)
        self._blank = copy.deepcopy(self.base)

    def act(self, observation: Any) -> Any:
        """Return the candidate that scores best.

        Parameters
        ----------
        observation : object
            What is seen.

        Returns
        -------
        object
            The base agent's action unless another one scores better.

        Raises
        ------
        InvalidConfiguration
            If the agent was not given forks.
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
        """Return the base agent's action, without what it says of questions that it need not be asked.

        Parameters
        ----------
        observation : object
            What is seen.

        Returns
        -------
        object
            The first candidate.
        """
        return self.base.act(observation)

    def _try(self, observation: Any, action: Any, best: Score | None) -> Score | None:
        """Return what the base agent's action (without a best score) or another one leads to; None if to an error."""
        if self._fork is None or self._blank is None:
            raise InvalidConfiguration(
                f"{self.name} was not given forks: use desim.simulate, or desim.core.prepare_agent"
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
        """Return the base agent with all that it remembers, about a fork instead of about the run."""
        pairs = [(observation, twin), *self.twins(observation, twin)]
        return copy.deepcopy(self.base, {id(ours): theirs for ours, theirs in pairs})

    def _copy_of_blank(self) -> Agent:
        """Return the base agent without what it remembers."""
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
        """Return the actions to try beside the base agent's; none where there is no choice.

        Parameters
        ----------
        observation : object
            What is seen.
        action : object
            The base agent's action.

        Returns
        -------
        list of object
            In the order in which they are tried; of equal scores the first counts.
        """

    @abstractmethod
    def tally(self, simulation: Simulation) -> Tally:
        """Return what keeps the score of a fork.

        Parameters
        ----------
        simulation : Simulation
            The fork, before anything has happened in it.

        Returns
        -------
        Tally
            It listens.
        """

    def twins(self, observation: Any, twin: Any) -> Iterable[tuple[Any, Any]]:
        """Return what agents may have in mind of a run, each with its counterpart in a fork.

        Parameters
        ----------
        observation : object
            Of the run.
        twin : object
            Of the fork.

        Returns
        -------
        iterable of (object, object)
            Pairs; what does not change may be its own counterpart.
        """
        return ()
