"""Compare trained weights with rule-based agents by paired differences over the same validation episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from desim import plugins, simulate
from desim.agents.learning.experience import evaluate
from desim.agents.learning.training import Task, validation_seeds
from desim.envs.base import SchedulingEnv
from desim.result import Result
from desim.statistics import Estimate, paired_difference

if TYPE_CHECKING:
    from desim.agents.learning.settings import TrainingSettings

__all__ = ["RuleComparison", "compare_with_rules"]


@dataclass(frozen=True)
class RuleComparison:
    """Comparison of trained weights with a rule.

    Attributes
    ----------
    rule : str
        Name of the rule's agent.
    objective : str
        Name of the measure that is compared.
    mean : float
        Mean of the rule over the validation episodes.
    difference : Estimate
        Mean paired difference, weights minus rule, with its 95 % interval.
    maximize : bool
        Whether larger values are better.
    """

    rule: str
    objective: str
    mean: float
    difference: Estimate
    maximize: bool

    def __str__(self) -> str:
        """Return the comparison in one line."""
        change = self.difference
        unclear = not abs(change.mean) > change.half_width
        word = "level with" if unclear else "better than" if (change.mean > 0) == self.maximize else "worse than"
        share, half = (
            100.0 * part / abs(self.mean) if self.mean else np.nan for part in (change.mean, change.half_width)
        )
        return f"{word} {self.rule} ({self.objective} {self.mean:,.5g}): {share:+.1f} ± {half:.1f} %"


class _Over:
    """Stand-in for an environment at the end of its episode, with the records of a rule's run."""

    def __init__(self, result: Result) -> None:
        self.unwrapped, self._result = self, result

    def result(self) -> Result:
        """Return the records."""
        return self._result


def compare_with_rules(
    settings: TrainingSettings[Any], weights: dict[str, Tensor], rules: Sequence[str] | None = None
) -> list[RuleComparison]:
    """Compare trained weights with rules on the validation episodes, by which the weights were chosen.

    Parameters
    ----------
    settings : TrainingSettings
        Settings of the training.
    weights : dict of str to Tensor
        Trained weights.
    rules : sequence of str, optional
        Names of the agents to compare with. Default: ``settings.rules``.

    Returns
    -------
    list of RuleComparison
        One comparison per rule; empty if the objective cannot be measured without the network, such as a return.
    """
    task = settings.task()
    names = settings.rules if rules is None else rules
    if not names or task.measure is None or task.objective == "return":
        return []
    policy = settings.agent.policy(np.random.default_rng(0))
    policy.load_state_dict(weights)
    seeds = validation_seeds(settings.training.validation_episodes)
    how: dict[str, Any] = {"measure": task.measure, "rng": task.validation_rng(), "compiled": task.compiled}
    ours = evaluate(policy, task.make_validation_env, seeds, **how)
    reached = [episode[task.objective] for episode in ours]
    found = []
    for name in names:
        problem = settings.trained.partition("-")[0]
        values = [_reached(problem, task, name, seed) for seed in seeds]
        change = paired_difference(reached, values)
        found.append(RuleComparison(name, task.objective, float(np.mean(values)), change, task.maximize))
    return found


def _reached(problem: str, task: Task, rule: str, seed: int) -> float:
    """Return the objective of a rule in the validation episode of a seed."""
    gym_env: Any = task.make_validation_env()
    assert isinstance(gym_env, SchedulingEnv)
    gym_env.reset(seed=seed)
    result = simulate(gym_env.simulation.problem, plugins.create_agent(problem, rule), until=gym_env.until)
    assert task.measure is not None
    return task.measure(_Over(result))[task.objective]  # type: ignore[arg-type]  # measures use the records only
