"""How trained weights stand against rules: the same validation episodes, and differences episode by episode."""

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
    """How weights stand against a rule.

    Attributes
    ----------
    rule : str
        Its name.
    objective : str
        What is compared.
    mean : float
        What the rule reaches, on average over the validation episodes.
    difference : Estimate
        What the weights reach less that, episode by episode, with its 95 % interval.
    maximize : bool
        Whether more is better.
    """

    rule: str
    objective: str
    mean: float
    difference: Estimate
    maximize: bool

    def __str__(self) -> str:
        """Tell it in a line."""
        change = self.difference
        unclear = not abs(change.mean) > change.half_width
        word = "level with" if unclear else "better than" if (change.mean > 0) == self.maximize else "worse than"
        share, half = (
            100.0 * part / abs(self.mean) if self.mean else np.nan for part in (change.mean, change.half_width)
        )
        return f"{word} {self.rule} ({self.objective} {self.mean:,.5g}): {share:+.1f} ± {half:.1f} %"


class _Over:
    """The records of a rule's run in the place of an environment whose episode has ended."""

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
        Of the training.
    weights : dict of str to Tensor
        What has come of it.
    rules : sequence of str, optional
        Names of agents; by default those of the settings.

    Returns
    -------
    list of RuleComparison
        One a rule; none where the objective cannot be measured without the network, such as a return.
    """
    task = settings.task()
    names = settings.rules if rules is None else rules
    if not names or task.measure is None or task.objective == "return":
        return []
    policy = settings.agent.policy(np.random.default_rng(0))
    policy.load_state_dict(weights)
    seeds = validation_seeds(settings.training.validation_episodes)
    ours = evaluate(policy, task.make_validation_env, seeds, measure=task.measure, rng=task.validation_rng())
    reached = [episode[task.objective] for episode in ours]
    found = []
    for name in names:
        problem = settings.trained.partition("-")[0]
        values = [_reached(problem, task, name, seed) for seed in seeds]
        change = paired_difference(reached, values)
        found.append(RuleComparison(name, task.objective, float(np.mean(values)), change, task.maximize))
    return found


def _reached(problem: str, task: Task, rule: str, seed: int) -> float:
    """Return what a rule reaches in the validation episode of a seed."""
    gym_env: Any = task.make_validation_env()
    assert isinstance(gym_env, SchedulingEnv)
    gym_env.reset(seed=seed)
    result = simulate(gym_env.simulation.problem, plugins.create_agent(problem, rule), until=gym_env.until)
    assert task.measure is not None
    return task.measure(_Over(result))[task.objective]  # type: ignore[arg-type]  # it asks for the records alone
