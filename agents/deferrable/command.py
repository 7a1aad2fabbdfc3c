"""The options of ``desim train deferrable``, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from desim.agents.learning.command_line import TrainingCommand
from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from desim.agents.learning.training import TrainingConfig

__all__ = ["TrainingOptions"]

QUICK_STEPS = 60_000


@dataclass(frozen=True)
class TrainingOptions(TrainingCommand):
    """Train OSDEC or a variant for deferrable jobs; the weights and their card are written to the directory.

    Examples::

        desim train deferrable --quick --out quick
        desim train deferrable --auxiliary none --seed 1 --out attention
        desim train deferrable --warm-start 300 --episodes-of core-1 core-2 core-3 --out cores

    Ctrl-C ends a training early; the same command goes on from where it was, to the same numbers.
    """

    trained: ClassVar[str] = "deferrable"

    network: Literal["attention", "mlp", "pointer"] = "attention"
    """A Transformer encoder, a fully connected network over rows in a fixed order, or a pointer network."""
    auxiliary: Literal["none", "high", "low", "both"] = "both"
    """Which vectors of the auxiliary module are seen; both is OSDEC."""
    algorithm: Literal["ppo", "reinforce"] = "ppo"
    """Proximal policy optimization, or REINFORCE."""
    rule: Literal["stop", "skip", "reserve"] = "stop"
    """Let the first job that does not fit end the slot, as in the paper, pass over it, or let it keep its place."""
    hold_back: bool = False
    """Hold back jobs whose score is at or below 0."""
    plans: bool = False
    """Show when list plans would start each job."""
    width: int = 32
    """Numbers in a token, or units of a layer."""
    max_jobs: int = 32
    """Room for jobs whose window is open, and for those whose window is yet to open."""
    episodes_of: tuple[str, ...] = ("default",)
    """Workloads, one of which is drawn for an episode: default, fluctuating, core-1 to -3, duration-1 to -3."""
    real_time: Literal["no", "yes", "half"] = "no"
    """Whether jobs are to be started at once or never; or in half of the episodes."""
    delay_weight: float = 2.0
    """What a slot of a job's delay costs, in core-slots."""
    warm_start: int = 0
    """Episodes from which the network first learns to do what a list plan does."""
    steps: int = 500_000
    """Slots to learn from."""
    learning_rate: float | None = None
    """Of Adam, 0.0001 for PPO and 0.001 for REINFORCE if left out; it falls to a tenth of this."""
    auxiliary_rate: float = 100.0
    """How many times faster than the policy the auxiliary module learns."""
    target_kl: float = 0.02
    """PPO goes on to the next batch once the policy has moved further than one and a half times this; 0 for never."""
    minibatch: int = 64
    """Samples in a step of PPO."""
    discount: float = 0.99
    """What a reward counts less for each slot that it comes later."""
    decay: float = 0.95
    """The lambda of generalized advantage estimation, for PPO."""
    value_weight: float = 0.5
    """Of the critic's loss."""
    group: int = 1
    """Environments that face the same episodes, whose mean advantage is taken off; 1 does without."""
    averaging: float = 0.0
    """Share that the average of the weights keeps in an update; 0 does without."""
    validation_episodes: int = 50
    """Episodes of a validation."""
    seed: int = 0
    """Of everything random in the training."""
    workers: int = 0
    """Processes that simulate; 0 simulates in this one. Results depend on it."""
    name: str | None = None
    """Of the files with the weights; by default after the network."""
    quick: bool = False
    """A small training of a few minutes, whatever --steps says."""

    def settings(self) -> Any:
        """Return all that determines the training.

        Returns
        -------
        ScoreTraining
            With the defaults of :mod:`desim.agents.deferrable.training` for all that is no option here.
        """
        from desim.agents.deferrable.score_agent import ScoreConfig
        from desim.agents.deferrable.training import DeferrableEpisodes, ScoreTraining

        threshold = 0.0 if self.hold_back else -1.0
        agent = ScoreConfig(
            self.network,
            self.auxiliary,
            self.rule,
            threshold,
            self.max_jobs,
            self.max_jobs,
            width=self.width,
            plans=self.plans,
        )
        real_time = {"no": (False,), "yes": (True,), "half": (False, True)}[self.real_time]
        return replace(
            ScoreTraining(),
            agent=agent,
            episodes=DeferrableEpisodes(self.episodes_of, real_time, self.delay_weight),
            auxiliary_rate=self.auxiliary_rate,
            warm_start=self.warm_start,
            algorithm=self._algorithm(),
            training=self._loop(),
        )

    def _loop(self) -> TrainingConfig:
        """Return length, seed and environments."""
        from desim.agents.deferrable.training import DEFAULT_TRAINING

        loop = replace(
            DEFAULT_TRAINING,
            total_steps=QUICK_STEPS if self.quick else self.steps,
            seed=self.seed,
            num_workers=self.workers,
            averaging=self.averaging,
            validation_episodes=self.validation_episodes,
        )
        if self.algorithm == "reinforce":  # which needs the returns of whole episodes
            loop = replace(loop, num_steps=1_000, whole_episodes=True)
        if self.group > 1:
            return replace(
                loop, num_envs=32, num_steps=1_000, whole_episodes=True, group_size=self.group, validate_every=2
            )
        return replace(loop, validate_every=5) if self.quick else loop

    def _algorithm(self) -> Any:
        """Return the algorithm with its settings."""
        from desim.agents.deferrable.training import DEFAULT_PPO, DEFAULT_REINFORCE
        from desim.agents.learning.learner import Discounting

        rate = self.learning_rate
        if self.algorithm == "reinforce":
            rate = DEFAULT_REINFORCE.learning_rate if rate is None else rate
            found = replace(DEFAULT_REINFORCE, learning_rate=rate, final_learning_rate=0.1 * rate)
            found = replace(found, discount=self.discount)
            return replace(found, baseline="group", group_size=self.group) if self.group > 1 else found
        rate = DEFAULT_PPO.learning_rate if rate is None else rate
        return replace(
            DEFAULT_PPO,
            learning_rate=rate,
            final_learning_rate=0.1 * rate,
            minibatch_size=self.minibatch,
            target_kl=self.target_kl or None,
            value_weight=self.value_weight,
            discounting=Discounting(self.discount, self.decay),
            group_size=self.group,
        )

    def default_name(self) -> str:
        """Return the name of the network and what it sees."""
        return f"{self.network}-{self.auxiliary}"

    def check(self) -> None:
        """Refuse numbers that the settings would take.

        Raises
        ------
        InvalidConfiguration
            If an option is out of range.
        """
        if self.warm_start < 0 or self.target_kl < 0:
            given = f"warm_start is {self.warm_start!r}, target_kl {self.target_kl!r}"
            raise InvalidConfiguration(f"{given}, want at least 0")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise InvalidConfiguration(f"learning_rate is {self.learning_rate!r}, want a number above 0")
