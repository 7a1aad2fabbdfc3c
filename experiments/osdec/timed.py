"""Runs whose decisions are timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from desim.core import Agent
from desim.experiments.measured import Choice
from desim.experiments.osdec.simulate import Made, Setting, carry_out, create
from desim.problems.deferrable import DeferrableObservation, Foresight
from desim.sweep import Run

DECISION = "decision_ms"
"""The outcome that tells the mean processor time of a decision, in milliseconds."""


class Timed:
    """An agent whose decisions are timed.

    Parameters
    ----------
    agent : Agent
        The agent.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.name = str(getattr(agent, "name", ""))
        self.seconds = 0.0
        self.decisions = 0

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Reset the agent."""
        if hasattr(self._agent, "reset"):
            self._agent.reset(simulation_info, rng)

    def act(self, observation: DeferrableObservation) -> Any:
        """Return its answer, and count the processor's time."""
        begin = time.process_time()
        answer = self._agent.act(observation)
        self.seconds += time.process_time() - begin
        self.decisions += 1
        return answer


def timed(run: Run, make: Callable[[Choice, Setting, Callable[[], Foresight]], Made]) -> dict[str, Any]:
    """Simulate a run, as :func:`~desim.experiments.osdec.simulate.carry_out` says, and time the decisions.

    Parameters
    ----------
    run : Run
        Of a setting and a choice.
    make : callable
        Makes the agent.

    Returns
    -------
    dict
        What that returns, and :data:`DECISION`.
    """
    made: list[Timed] = []

    def make_timed(choice: Choice, setting: Setting, foresight: Callable[[], Foresight]) -> Made:
        agent, known = make(choice, setting, foresight)
        made.append(Timed(agent))
        return made[0], known

    outcome = carry_out(run, make_timed)
    return outcome | {DECISION: 1e3 * made[0].seconds / max(made[0].decisions, 1)}


def perform_timed(run: Run) -> dict[str, Any]:
    """Simulate a run as :func:`~desim.experiments.osdec.simulate.perform` does, and time the decisions."""
    if run.agent.policy.startswith("search:"):  # what is compiled when it is first called is no part of a decision
        _compiled()
    return timed(run, create)


_warm: list[bool] = []


def _compiled() -> None:
    """Have the search compiled."""
    if not _warm:
        _warm.append(True)
        search = Choice("search:deferrable:total_reward:1")
        carry_out(Run(Setting("fluctuating", num_slots=12), search, 0), create)
