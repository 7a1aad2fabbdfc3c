"""The options of ``desim train batch``, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from desim.agents.learning.command_line import TrainingCommand
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from desim.agents.learning.training import TrainingConfig

__all__ = ["InspectorOptions", "TrainingOptions"]


@dataclass(frozen=True)
class TrainingOptions(TrainingCommand):
    """Train an agent of the batch cluster; its weights and their card are written to the directory.

    Examples::

        desim train batch --quick --out quick
        desim train batch --head 19 --tail 1 --seed 2 --workers 2 --out m20
        desim train batch --network mlp --reward paper --steps 2000000 --out as-published

    Ctrl-C ends a training early; the same command goes on from where it was, to the same numbers.
    """

    trained: ClassVar[str] = "batch"

    head: int = 16
    """Slots of the window at the head of the queue."""
    tail: int = 16
    """Slots at its tail."""
    any_window: bool = False
    """Give each episode a window of its own, of 8 to 64 slots with at least one at the tail; for the scorer."""
    network: Literal["scorer", "mlp"] = "scorer"
    """One that scores each job with the same weights, or the DBF paper's over its flat observation."""
    reserve_after: float | None = None
    """Once the oldest job has waited for so long, in seconds, it has a reservation; for the scorer."""
    reward: Literal["waiting", "long-waits", "paper", "scaled"] = "waiting"
    """Minus the waiting time of all jobs, or its fourth power; the DBF paper's, or that with constants."""
    unmasked: bool = False
    """Let impossible actions be chosen; they end the scheduling cycle."""
    warm_start: int = 0
    """Rollouts in which the agent first learns to do what a rule does."""
    expert: Literal["shortest", "reserving", "aged"] = "reserving"
    """The rule of the window: the shortest job first; the same with a reservation; or the shortest and oldest first."""
    steps: int = 3_000_000
    """Decisions to learn from."""
    learning_rate: float = 3e-3
    """Of Adam; it falls to a tenth of this. Less suits an agent with a warm start."""
    entropy: float = 0.01
    """Weight of the entropy at the beginning; it falls to 0."""
    seed: int = 0
    """Of everything random in the training."""
    workers: int = 2
    """Processes that simulate; 0 simulates in this one. Results depend on it."""
    cores: int = 256
    """Cores of the cluster."""
    load: float = 1.06
    """Offered load of the generated workloads."""
    overestimate: float = 1.0
    """Generated jobs request between 1 and this times their actual run time."""
    group: int = 1
    """Environments that face the same episodes, whose mean advantage is taken off; 1 does without."""
    name: str | None = None
    """Of the files with the weights; by default after the window."""
    quick: bool = False
    """A small training of a few minutes, whatever --steps says."""

    def settings(self) -> Any:
        """Return all that determines the training.

        Returns
        -------
        SplitWindowTraining
            With the defaults of :mod:`desim.agents.batch.training` for all that is no option here.
        """
        from desim.agents.batch.split_window import SplitWindowConfig
        from desim.agents.batch.training import WINDOWS, EpisodeOptions, SplitWindowTraining

        default = SplitWindowTraining()
        return replace(
            default,
            agent=SplitWindowConfig(
                self.head,
                self.tail,
                self.network,
                masked=not self.unmasked,
                num_cores=self.cores,
                reserve_after=self.reserve_after,
            ),
            windows=WINDOWS if self.any_window else (),
            episodes=EpisodeOptions(self.cores, self.load, self.overestimate, num_traces=16 if self.quick else 64),
            reward=self.reward,
            warm_start=self.warm_start,
            expert=self.expert,
            ppo=replace(
                default.ppo,
                learning_rate=self.learning_rate,
                final_learning_rate=0.1 * self.learning_rate,
                entropy=self.entropy,
                group_size=self.group,
            ),
            training=self._loop(),
        )

    def _loop(self) -> TrainingConfig:
        """Return length, seed and environments; groups need whole episodes."""
        from desim.agents.learning.training import TrainingConfig

        return TrainingConfig(
            total_steps=400_000 if self.quick else self.steps,
            seed=self.seed,
            num_workers=self.workers,
            group_size=self.group,
            whole_episodes=self.group > 1,
            num_steps=4_000 if self.group > 1 else 256,
            validate_every=10 if self.quick else 20,
        )

    def default_name(self) -> str:
        """Return the name of the window."""
        return f"split-window-{self.head}-{self.tail}"

    def check(self) -> None:
        """Refuse numbers that the settings would take, or name otherwise.

        Raises
        ------
        InvalidConfiguration
            If an option is out of range.
        """
        if not self.load > 0 or self.workers < 0:
            raise InvalidConfiguration(f"load {self.load!r}, workers {self.workers!r}: want values above 0, at least 0")
        if self.warm_start < 0:
            raise InvalidConfiguration(f"warm_start is {self.warm_start!r}, want at least 0 rollouts")


@dataclass(frozen=True)
class InspectorOptions(TrainingCommand):
    """Train a SchedInspector over a priority; its weights and their card are written to the directory.

    Examples::

        desim train batch-inspector --base f1 --out f1
    """

    trained: ClassVar[str] = "batch-inspector"

    base: str = "sjf-cores"
    """The priority that chooses; see `desim list`."""
    picks_anew: bool = False
    """Let the priority choose anew at each arrival and completion while an accepted job waits for its cores."""
    reward: Literal["bounded_slowdown", "waiting_time"] = "bounded_slowdown"
    """Whose relative improvement over the base is earned."""
    steps: int = 500_000
    """Decisions to learn from."""
    seed: int = 0
    """Of everything random in the training."""
    workers: int = 2
    """Processes that simulate; 0 simulates in this one. Results depend on it."""
    cores: int = 256
    """Cores of the cluster."""
    load: float = 1.06
    """Offered load of the generated workloads."""
    overestimate: float = 1.0
    """Generated jobs request between 1 and this times their actual run time."""
    name: str | None = None
    """Of the files with the weights; by default after the priority."""

    def settings(self) -> Any:
        """Return all that determines the training.

        Returns
        -------
        InspectorTraining
            With the defaults of :mod:`desim.agents.batch.inspector_training` for all that is no option here.
        """
        from desim.agents.batch.inspector_network import InspectorConfig
        from desim.agents.batch.inspector_training import InspectorTraining

        default = InspectorTraining()
        return replace(
            default,
            agent=InspectorConfig(self.base, keeps_accepted=not self.picks_anew),
            episodes=replace(default.episodes, num_cores=self.cores, load=self.load, overestimate=self.overestimate),
            reward=self.reward,
            training=replace(default.training, total_steps=self.steps, seed=self.seed, num_workers=self.workers),
        )

    def default_name(self) -> str:
        """Return the name of the priority."""
        return f"inspector-{self.base}"
