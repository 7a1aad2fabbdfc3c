"""The options of ``desim train dag``, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from desim.agents.learning.command_line import TrainingCommand
from desim.exceptions import InvalidConfiguration

__all__ = ["TrainingOptions"]

QUICK_WARM_START = 4


@dataclass(frozen=True)
class TrainingOptions(TrainingCommand):
    """Train LACHESIS or Decima for DAG jobs; the weights and their card are written to the directory.

    Examples::

        desim train dag --quick --out quick
        desim train dag --objective completion_time --warm-start 8 --out lachesis
        desim train dag --mode planned --intervals 0 --warm-start 6 --out batch

    Ctrl-C ends a training early; the same command goes on from where it was, to the same numbers.
    """

    trained: ClassVar[str] = "dag"

    kind: Literal["lachesis", "decima"] = "lachesis"
    """Whose embedding and features."""
    mode: Literal["idle", "immediate", "planned"] = "idle"
    """Assign nodes to idle executors only, and wait for better ones; or, as in the paper, as soon as executable; or,
    for batches, plan ahead: as soon as their parents are assigned."""
    objective: Literal["makespan", "completion_time"] = "makespan"
    """Earn minus the time that passes, or minus the time that jobs spend in the system."""
    algorithm: Literal["ppo", "actor_critic"] = "ppo"
    """Proximal policy optimization, or the paper's synchronous actor-critic, which learns once of each decision."""
    first_length: float | None = None
    """Mean of the number of decisions of an episode that count, at the beginning; it grows, as in the paper."""
    warm_start: int = 0
    """Rollouts in which the network first learns to do what a rule does, a patient one in mode idle."""
    steps: int = 1_000_000
    """Decisions to learn from."""
    learning_rate: float = 1e-3
    """Of Adam; it falls to a tenth of this. Less suits a network with a warm start."""
    entropy: float = 0.0
    """Weight of the entropy at the beginning; it falls to 0."""
    decay_time: float = 100.0
    """Seconds in which the credit of a decision falls to nine tenths (the lambda of GAE)."""
    jobs: tuple[int, int] = (15, 30)
    """Least and most jobs of an episode."""
    executors: tuple[int, ...] = (10,)
    """Numbers of executors, one of which is drawn for an episode."""
    ccr: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0)
    """Communication-to-computation ratios, one of which is drawn for an episode."""
    intervals: tuple[float, ...] = (0.0, 45.0)
    """Mean seconds between jobs, one of which is drawn for an episode; 0 for all at time 0."""
    seed: int = 0
    """Of everything random in the training."""
    workers: int = 0
    """Processes that simulate; 0 simulates in this one. Results depend on it."""
    name: str | None = None
    """Of the files with the weights; by default after the kind and the objective."""
    quick: bool = False
    """A small training of a few minutes, whatever --steps and --jobs say, with a warm start of 4 rollouts."""

    def settings(self) -> Any:
        """Return all that determines the training.

        Returns
        -------
        GraphTraining
            With the defaults of :mod:`desim.agents.dag.training` for all that is no option here.
        """
        from desim.agents.dag.graph_agent import GraphConfig
        from desim.agents.dag.training import PAPER_ALGORITHM, GraphEpisodes, GraphTraining
        from desim.agents.learning.learner import Discounting
        from desim.problems.dag.graph_encoder import GraphSizes

        jobs = (8, 12) if self.quick else self.jobs
        default = GraphTraining()
        return replace(
            default,
            agent=GraphConfig(self.kind, self.mode),
            episodes=GraphEpisodes(jobs, self.executors, self.ccr, self.intervals, self.mode == "planned"),
            sizes=GraphSizes(jobs=jobs[1], candidates=4 * jobs[1]),
            objective=self.objective,
            warm_start=self.warm_start or (QUICK_WARM_START if self.quick else 0),
            algorithm=replace(
                default.algorithm if self.algorithm == "ppo" else PAPER_ALGORITHM,
                learning_rate=self.learning_rate,
                final_learning_rate=0.1 * self.learning_rate,
                entropy=self.entropy,
                discounting=Discounting(1.0, 0.9, self.decay_time),
            ),
            training=replace(
                default.training,
                total_steps=60_000 if self.quick else self.steps,
                seed=self.seed,
                num_workers=self.workers,
                first_length=self.first_length,
            ),
        )

    def default_name(self) -> str:
        """Return the name of the kind and the objective."""
        return f"{self.kind}-{self.objective.replace('_', '-')}"

    def check(self) -> None:
        """Refuse numbers that the settings would take.

        Raises
        ------
        InvalidConfiguration
            If an option is out of range.
        """
        if self.warm_start < 0:
            raise InvalidConfiguration(f"warm_start is {self.warm_start!r}, want at least 0")
