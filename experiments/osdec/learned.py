"""Runs of learned agents."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from desim.agents.deferrable.forecasts import Forecast
from desim.agents.deferrable.score_agent import ScoreAgent, ScoreConfig
from desim.agents.deferrable.score_policy import ScorePolicy
from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.pretrained import PRETRAINED
from desim.exceptions import InvalidConfiguration
from desim.experiments.osdec.simulating import Choice, Made, Setting, carry_out, create
from desim.problems.deferrable import Foresight
from desim.sweep import Run

__all__ = ["create_any", "learned_agent", "learned_policy", "perform_learned"]


def learned_agent(choice: Choice, forecast: Forecast | None = None) -> ScoreAgent:
    """Return an agent with trained weights.

    Parameters
    ----------
    choice : Choice
        With ``weights``, the name of weights that come with the package or the path of others, and their ``sha256``.
    forecast : Forecast, optional
        Its shield.

    Returns
    -------
    ScoreAgent
        A new one.

    Raises
    ------
    InvalidConfiguration
        If the weights have changed since they were chosen.
    """
    parameters = dict(choice.parameters)
    policy, config = _loaded(parameters["weights"], parameters["sha256"])
    return ScoreAgent(policy, config, forecast=forecast, name=Path(parameters["weights"]).name)


def learned_policy(choice: Choice) -> ScorePolicy:
    """Return the network of such an agent, which others may share.

    Parameters
    ----------
    choice : Choice
        As for :func:`learned_agent`.
    """
    parameters = dict(choice.parameters)
    return _loaded(parameters["weights"], parameters["sha256"])[0]


@cache
def _loaded(weights: str, sha256: str) -> tuple[ScorePolicy, ScoreConfig]:
    stem = PRETRAINED / weights  # which is the path itself if that is absolute
    if load_weights(stem)[1]["sha256"] != sha256:
        raise InvalidConfiguration(f"the weights {stem} have changed since the experiment began")
    config, policy = ScoreConfig.load(stem)
    return policy.eval(), config


def create_any(choice: Choice, setting: Setting, foresight: Callable[[], Foresight]) -> Made:
    """Return a new agent, learned or not, and what is known of it before the run.

    Parameters
    ----------
    choice : Choice
        Which one: ``"score"`` with ``weights`` and ``sha256``, or what
        :func:`~desim.experiments.osdec.simulating.create` knows.
    setting : Setting
        For agents that know the objective.
    foresight : callable
        Returns all that will come.

    Returns
    -------
    tuple
        As that returns.
    """
    if choice.policy == "score":
        return learned_agent(choice), {"bound": None, "proved": None}
    return create(choice, setting, foresight)


def perform_learned(run: Run) -> dict[str, Any]:
    """Simulate a run of a learned agent, as :func:`~desim.experiments.osdec.simulating.carry_out` says."""
    return carry_out(run, create_any)
