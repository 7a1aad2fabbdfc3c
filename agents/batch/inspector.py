"""SchedInspector: a network that accepts or rejects the choices of a base policy.

Source: Zhang, Dai and Xie, "SchedInspector: a batch job scheduling inspector using reinforcement learning", HPDC 2022.
:class:`SchedInspector` follows the authors' released program, DIR-LAB/SchedInspector. :class:`Inspector` is desim's
version: features that span decades are logarithms, the base policy backfills in its own order by EASY's condition, the
most likely action is taken, and a new network accepts every job.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import torch

from desim.agents.batch.cores_only import refuse_nodes
from desim.agents.batch.priorities import Priority, as_priority
from desim.agents.learning.learned import AgentConfig, LearnedAgent
from desim.agents.learning.policy import MLPPolicy, Policy, action_for, drawn
from desim.envs.base import Arrays
from desim.problems.batch import BatchObservation, Queue
from desim.problems.batch.encoders import earliest_start
from desim.problems.batch.inspection import (
    INSPECTION_FEATURES,
    Answer,
    BasePolicy,
    Inspection,
    InspectionEncoder,
    Question,
    ReleasedEncoder,
)

__all__ = [
    "BackfilledPriority",
    "Inspector",
    "InspectorConfig",
    "PriorityBase",
    "ReleasedBase",
    "Rule",
    "SchedInspector",
    "SchedInspectorConfig",
]

Rule = Callable[[Arrays], int]
"""Type of a rule that maps the encoded observation of a question to 1 (accept) or 0 (reject)."""


class PriorityBase:
    """Base class of base policies that choose the first job of a priority order.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Priority order of the jobs, for example ``"smallest-first"`` or ``F1``.
    """

    def __init__(self, order: str | Priority | type[Priority]) -> None:
        self.priority = as_priority(order)
        self.name = self.priority.name

    def first(self, queue: Queue, time: float) -> int:
        """Return the position of the first job by the priority.

        Parameters
        ----------
        queue : Queue
            Nonempty queue.
        time : float
            Current time in seconds.
        """
        return self.priority.first(queue, time)

    def backfill(self, observation: BatchObservation, blocked: int) -> list[int] | None:
        """Return the jobs that may start without delaying the blocked job.

        Parameters
        ----------
        observation : BatchObservation
            Observation of the current decision.
        blocked : int
            Position of the blocked job, which does not fit.
        """
        raise NotImplementedError


class BackfilledPriority(PriorityBase):
    """A priority order with EASY backfilling in the same order, as the base policy of an inspector."""

    def backfill(self, observation: BatchObservation, blocked: int) -> list[Any] | None:
        """Return the jobs that EASY's condition allows to start."""
        plan = observation.plan()
        plan.reserve(blocked)
        plan.start_each(self.priority.order_among(observation.queue, observation.time, plan.fitting()))
        return plan.answer or None


class ReleasedBase(PriorityBase):
    """A priority order with the backfilling of SchedInspector's released program.

    Beside the blocked job, jobs start in order of arrival if they are expected to end before it can start. Unlike
    in EASY backfilling, longer jobs may not use cores that the blocked job leaves over.
    """

    def backfill(self, observation: BatchObservation, blocked: int) -> list[int] | None:
        """Return the jobs that end before the blocked job can start."""
        queue, free = observation.queue, observation.free_cores
        cores = queue.requested_cores
        start = earliest_start(observation, int(cores[blocked]))
        begin = math.inf if start is None else start[0]
        started = []
        for position in ((cores <= free) & (observation.time + queue.expected_time < begin)).nonzero()[0]:
            if cores[position] <= free:
                free -= int(cores[position])
                started.append(queue.job_id.item(position))
        return started or None


@dataclass(frozen=True)
class _Config(AgentConfig[Policy]):
    """Settings of both inspectors; the subclasses describe them."""

    base: str = "sjf"
    hidden: tuple[int, ...] = (32, 16, 8)
    max_rejections: int = 72
    interval: float = 600.0

    def rules(self) -> dict[str, Any]:
        """Return the arguments of :class:`~desim.problems.batch.inspection.Inspection` besides the base policy."""
        names = (one.name for one in fields(self) if one.name not in ("base", "hidden"))
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class InspectorConfig(_Config):
    """Base policy, rules, and a small fully connected network that accepts at first (our departure from the paper).

    Parameters
    ----------
    base : str
        Name of the priority that chooses jobs; see desim list.
    hidden : tuple of int
        Numbers of units of the hidden layers, in the actor and in the critic.
    max_rejections : int
        Largest number of rejections per job.
    interval : float
        Longest time from a rejection to the next inspection, in seconds.
    keeps_accepted : bool
        Whether an accepted job that does not fit stays the chosen one. If not, the priority chooses again at each
        arrival and completion while the job waits for its cores.
    """

    agent_kind: ClassVar[str] = "inspector"

    base: str = "smallest-first"
    keeps_accepted: bool = True

    def policy(self, rng: np.random.Generator) -> Policy:
        """Return a new network that accepts with a probability of nearly 3/4, so accepting is the likelier action."""
        policy = MLPPolicy({"features": len(INSPECTION_FEATURES)}, 2, rng, hidden=self.hidden)
        bias = policy.actor[-1].bias
        assert isinstance(bias, torch.Tensor)
        with torch.no_grad():
            bias.copy_(torch.tensor([0.0, 1.0]))
        return policy


class Inspector(LearnedAgent):
    """Agent that follows a base policy's choices or rejects them for a while.

    Parameters
    ----------
    base : str, Priority, or class of Priority
        Base policy, for example ``"smallest-first"`` or ``F1``.
    policy : Policy or callable, optional
        Network over the encoded observation, or a rule that returns 1 to accept and 0 to reject. Default: accept
        everything, which is the base policy alone, with backfilling.
    name : str, optional
        Name for records and tables. Default: ``"inspector-BASE"``.
    **rules
        Further arguments of :class:`~desim.problems.batch.inspection.Inspection`.

    Raises
    ------
    InvalidConfiguration
        If the base policy is unknown or a rule is out of range.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.batch import BatchCluster, Job
    >>> jobs = [Job(1, 0.0, 1, 10.0, 10.0), Job(2, 20.0, 2, 5.0, 5.0)]
    >>> simulate(BatchCluster(jobs, num_cores=2), Inspector("smallest-first")).jobs["starting_time"].to_list()
    [0.0, 20.0]
    >>> patient = Inspector("smallest-first", lambda seen: int(seen["features"][0] > 0))  # accept jobs that have waited
    >>> simulate(BatchCluster(jobs, num_cores=2), patient).jobs["starting_time"].to_list()
    [20.0, 30.0]
    """

    config_type: ClassVar[type[AgentConfig[Any]]] = InspectorConfig
    base_type: ClassVar[Callable[..., BasePolicy]] = BackfilledPriority
    encoder_type: ClassVar[type[InspectionEncoder]] = InspectionEncoder

    def __init__(
        self,
        base: str | Priority | type[Priority],
        policy: Policy | Rule | None = None,
        *,
        name: str | None = None,
        **rules: Any,
    ) -> None:
        self.inspection = Inspection(type(self).base_type(base), **rules)
        self.encoder = self.encoder_type(self.inspection)
        self.policy = policy.eval() if isinstance(policy, Policy) else policy
        self.name = f"{self.config_type.agent_kind}-{self.inspection.base.name}" if name is None else name

    @classmethod
    def of(cls, config: Any, policy: Policy, *, name: str) -> Self:
        """Return the agent for a configuration and a network; the name is used in records and tables."""
        return cls(config.base, policy, name=name, **config.rules())

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a run; raise InvalidConfiguration if the cluster has nodes."""
        refuse_nodes(simulation_info, self.name, f"easy-{self.inspection.base.name}")
        self.inspection.reset()
        self.rng = rng

    def act(self, observation: BatchObservation) -> Answer:
        """Return the job to start, the jobs to backfill, or how long to wait at most."""
        found = self.inspection.next(observation)
        if not isinstance(found, Question):
            return found
        if self.policy is None:
            return self.inspection.decide(observation, accept=True)
        return self.encoder.decode(observation, self._judge(self.encoder.encode(observation)))[0]

    def _judge(self, encoded: Arrays) -> int:
        """Return 1 to accept, 0 to reject."""
        choose = self.policy
        assert choose is not None
        return int(action_for(choose, encoded)) if isinstance(choose, Policy) else int(choose(encoded))


class ReleasedNetwork(MLPPolicy):
    """An actor and a critic that learns faster, as in the released program."""

    def rates(self) -> dict[str, float]:
        """Return the critic's learning rate relative to the actor's: 1e-3 to 3e-4."""
        return {"critic": 10 / 3}


@dataclass(frozen=True)
class SchedInspectorConfig(_Config):
    """Base policy, rules and network of SchedInspector's released program.

    Parameters
    ----------
    base : str
        Name of the priority that chooses jobs; see desim list.
    hidden : tuple of int
        Numbers of units of the hidden layers, in the actor and in the critic.
    max_rejections : int
        Largest number of rejections per job; training has no limit.
    interval : float
        Longest time from a rejection to the next inspection, in seconds.
    """

    agent_kind: ClassVar[str] = "schedinspector"

    def policy(self, rng: np.random.Generator) -> MLPPolicy:
        """Return a new network."""
        inputs = {"features": len(INSPECTION_FEATURES)}
        return drawn(ReleasedNetwork(inputs, 2, rng, hidden=self.hidden, activation="relu"), rng)


class SchedInspector(Inspector):
    """The inspector of the authors' released program, which also samples its actions after training.

    It takes the parameters of :class:`Inspector`; base policy and features are those of the released program.
    """

    config_type = SchedInspectorConfig
    base_type = ReleasedBase
    encoder_type = ReleasedEncoder

    def _judge(self, encoded: Arrays) -> int:
        if not isinstance(self.policy, Policy):
            return super()._judge(encoded)
        return int(action_for(self.policy, encoded, self.rng))
