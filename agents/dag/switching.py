"""Switch between agents: simulate the known jobs with each one, and follow the best until the next arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from numpy.random import Generator

from desim.agents.dag.rollout import Completions, Objective
from desim.agents.lookahead import Forking, Score
from desim.checks import check_choice
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.problem import declared
from desim.problems.dag import DagObservation, JobState
from desim.reprs import NamedRepr

__all__ = ["SwitchingAgent"]


class SwitchingAgent(Forking, NamedRepr):
    """Follow the agent whose simulated continuation is best; choose again whenever a job arrives.

    At an arrival, each member makes all decisions in a fork without foresight (see :meth:`desim.Simulation.fork`) until
    the jobs in the system have finished. The member with the best value of the objective then decides until the next
    arrival; of equal ones, the present member or else the first. If all jobs arrive together and nothing unexpected
    happens, the agent is therefore exactly as good as its best member. With later arrivals there is no guarantee.

    Parameters
    ----------
    members : sequence of Agent
        Agents to choose from; at least one. They must not plan ahead or look ahead themselves.
    objective : {"makespan", "turnaround_time_mean"}
        Quantity to minimize: the end of the last job, or the mean time from submission to end.

    Attributes
    ----------
    num_forks : int
        Number of simulations in this run.
    chosen : dict of str to int
        Number of choices of each member in this run, by name.

    Raises
    ------
    InvalidConfiguration
        If there are no members, a member plans or looks ahead, or the objective is unknown.

    Notes
    -----
    Known as policy switching: H. S. Chang, R. Givan and E. K. P. Chong, "Parallel rollout for online solution of
    partially observable Markov decision processes", Discrete Event Dynamic Systems 14, 2004.
    """

    def __init__(self, members: Sequence[Agent], *, objective: Objective = "makespan") -> None:
        if not members:
            raise InvalidConfiguration("members: got an empty sequence, expected at least one agent")
        self.members = list(members)
        self.objective = check_choice("objective", objective, get_args(Objective))
        names = [str(getattr(member, "name", type(member).__name__)) for member in members]
        kind = "switching" if objective == "makespan" else f"switching-{objective}"
        self.name = f"{kind}:{'+'.join(names)}"
        for member, name in zip(members, names, strict=True):
            if declared(member, "plans_ahead") or hasattr(member, "attach"):
                what = "looks" if hasattr(member, "attach") else "plans"
                raise InvalidConfiguration(
                    f"{kind}: {name} {what} ahead, and plans cannot be changed at arrivals; try list schedulers or "
                    "networks, or portfolio:MEMBERS, whose members may plan ahead"
                )
        considered = [declared(member, "considers", frozenset()) for member in members]
        self.considers = frozenset({"links", "outages", "arrivals", "demands"}).intersection(*considered)
        self._names = names

    def reset(self, info: dict[str, Any], rng: Generator) -> None:
        """Begin a new run.

        Parameters
        ----------
        info : dict
            Description of the cluster.
        rng : numpy.random.Generator
            Random stream of the agent, from which those of the members are spawned.
        """
        self._info, self._rngs = info, rng.spawn(len(self.members))
        self._known: dict[int, JobState] = {}
        self._current = -1
        self.num_forks = 0
        self.chosen = dict.fromkeys(self._names, 0)

    def act(self, observation: DagObservation) -> Any:
        """Return the answer of the best member.

        Parameters
        ----------
        observation : DagObservation
            Current observation.

        Raises
        ------
        InvalidConfiguration
            If the agent was not attached to a run.
        """
        jobs = observation.jobs
        if any(self._known.get(job_id) is not state for job_id, state in jobs.items()):
            self._known = dict(jobs)
            self._choose()
        return self.members[self._current].act(observation)

    def _choose(self) -> None:
        """Simulate all members and take the best."""
        before, best = max(self._current, 0), None
        numbers = [before, *(number for number in range(len(self.members)) if number != before)]
        for number in numbers if len(numbers) > 1 else ():
            score = self._score(number, best)
            if best is None or score.beats(best):
                self._current, best = number, score
        self._current = max(self._current, 0)
        self._begin(self._current)
        self.chosen[self._names[self._current]] += 1

    def _score(self, number: int, best: Score | None) -> Score:
        """Return the score of a member, which is too large if it cannot beat the best one."""
        if self._fork is None:
            raise InvalidConfiguration(
                f"{self.name}: got no forks before the first decision; try desim.simulate, or desim.core.prepare_agent"
            )
        self.num_forks += 1
        simulation = self._fork()
        tally = Completions(simulation, self.objective)
        member = self._begin(number)
        while (decision := simulation.advance()) is not None and not tally.is_over(best):
            decision.answer(member.act(decision.observation))
        return tally.score()

    def _begin(self, number: int) -> Agent:
        """Return a member without memory of earlier decisions."""
        member = self.members[number]
        reset = getattr(member, "reset", None)
        if reset is not None:
            reset(self._info, self._rngs[number])
        return member
