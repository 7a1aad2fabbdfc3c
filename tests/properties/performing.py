"""Simulations of which nobody wants records: tables take longer to make than small scenarios to run."""

from __future__ import annotations

from typing import Any

from desim import Problem, Simulation

__all__ = ["perform"]


def perform(problem: Problem, agent: Any, seed: int = 0) -> None:
    """Let an agent decide from the first decision to the last, as `simulate` does."""
    simulation = Simulation(problem, seed=seed)
    reset = getattr(agent, "reset", None)
    if reset is not None:
        reset(simulation.problem.describe(), simulation.stream("agent"))
    while (decision := simulation.advance()) is not None:
        decision.answer(agent.act(decision.observation))
