"""SchedInspector: a network that accepts or rejects what a base policy chooses.

Source: Zhang, Dai and Xie, "SchedInspector: a batch job scheduling inspector using reinforcement learning", HPDC 2022.
:class:`SchedInspector` follows the program that was released with it, DIR-LAB/SchedInspector. :class:`Inspector` is
what desim makes of it: features are logarithms where they span decades, the base policy backfills in its own order, by
EASY's condition, the likeliest action is taken, and a new network begins by accepting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch

from desim.agents.batch.backfilling import EASYBackfilling
from desim.agents.batch.node_backfilling import refuse_nodes
from desim.agents.batch.priorities import Priority, as_priority
from desim.agents.learning.learned import AgentConfig, LearnedAgent
from desim.agents.learning.policy import MLPPolicy, Policy, action_for, drawn, one_thread, to_tensors
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
    "ReleasedBase",
    "Rule",
    "SchedInspector",
    "SchedInspectorConfig",
]

Rule = Callable[[Arrays], int]
"""Says of the encoded observation of a question: 1 to accept, 0 to reject."""


class BackfilledPriority:
    """A priority order, with EASY backfilling in the same order: the base policy of an inspector.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Which job comes first, for example ``"smallest-first"`` or ``F1``.
    """

    def __init__(self, order: str | Priority | type[Priority]) -> None:
        self.priority = as_priority(order)
        self.name = self.priority.name
        self._reserving = _Reserving(self.priority)
        self._easy = EASYBackfilling(self._reserving)

    def first(self, queue: Queue, time: float) -> int:
        """Return the position of the job that comes first.

        Parameters
        ----------
        queue : Queue
            Not empty.
        time : float
            Now, in seconds.
        """
        return self.priority.first(queue, time)

    def backfill(self, observation: BatchObservation, blocked: int) -> list[int] | None:
        """Return the jobs that may start without a delay of the one that waits for its cores.

        Parameters
        ----------
        observation : BatchObservation
            A decision.
        blocked : int
            Position of the job that waits, and does not fit.
        """
        self._reserving.position = blocked
        answer = self._easy.act(observation) or []
        return [job_id for job_id in answer if isinstance(job_id, int)] or None  # the inspector is asked all the same


class _Reserving(Priority):
    """The same order, but for the job that has the reservation."""

    position = 0

    def __init__(self, priority: Priority) -> None:
        self._priority = priority
        self.scores = priority.scores  # type: ignore[method-assign]

    def first(self, queue: Queue, time: float) -> int:
        return self.position


class ReleasedBase:
    """A priority order, and the backfilling of the program that was released with SchedInspector.

    Jobs start in order of arrival beside the one that waits for its cores if they will have ended before it can start,
    by requested times; cores that it leaves over are not lent to longer ones, as they are by EASY.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Which job comes first, for example ``"sjf"``.
    """

    def __init__(self, order: str | Priority | type[Priority]) -> None:
        self.priority = as_priority(order)
        self.name = self.priority.name

    def first(self, queue: Queue, time: float) -> int:
        """Return the position of the job that comes first.

        Parameters
        ----------
        queue : Queue
            Not empty.
        time : float
            Now, in seconds.
        """
        return self.priority.first(queue, time)

    def backfill(self, observation: BatchObservation, blocked: int) -> list[int] | None:
        """Return the jobs that may start without a delay of the one that waits for its cores.

        Parameters
        ----------
        observation : BatchObservation
            A decision.
        blocked : int
            Position of the job that waits, and does not fit.
        """
        queue, free = observation.queue, observation.free_cores
        cores = queue.requested_cores
        start = earliest_start(observation, int(cores[blocked]))
        begin = math.inf if start is None else start[0]
        started = []
        for position in ((cores <= free) & (observation.time + queue.requested_time < begin)).nonzero()[0]:
            if cores[position] <= free:
                free -= int(cores[position])
                started.append(int(queue.job_id[position]))
        return started or None


@dataclass(frozen=True)
class InspectorConfig(AgentConfig[Policy]):
    """Base policy, rules, and a small fully connected network, which begins by accepting, a departure of ours.

    Parameters
    ----------
    base : str
        The priority that chooses; see ``desim list``.
    hidden : tuple of int
        Units of the hidden layers, of actor and critic each.
    max_rejections : int
        Most rejections of a job.
    interval : float
        Longest time from a rejection to the next question, in seconds.
    keeps_accepted : bool
        An accepted job that does not fit stays the chosen one; otherwise the priority chooses anew at each arrival and
        completion while it waits for its cores.
    """

    agent_kind: ClassVar[str] = "inspector"

    base: str = "smallest-first"
    hidden: tuple[int, ...] = (32, 16, 8)
    max_rejections: int = 72
    interval: float = 600.0
    keeps_accepted: bool = True

    def rules(self) -> dict[str, Any]:
        """Return the arguments of :class:`~desim.problems.batch.inspection.Inspection` beside the base policy."""
        return {
            "max_rejections": self.max_rejections,
            "interval": self.interval,
            "keeps_accepted": self.keeps_accepted,
        }

    def policy(self, rng: np.random.Generator) -> Policy:
        """Return a new network; it accepts nearly three out of four choices, and its likeliest action is to accept."""
        policy = MLPPolicy({"features": len(INSPECTION_FEATURES)}, 2, rng, hidden=self.hidden)
        bias = policy.actor[-1].bias
        assert isinstance(bias, torch.Tensor)
        with torch.no_grad():
            bias.copy_(torch.tensor([0.0, 1.0]))
        return policy


class Inspector(LearnedAgent):
    """Follows a base policy's choices, or rejects them for a while.

    Parameters
    ----------
    base : str, Priority, or class of Priority
        The base policy, for example ``"smallest-first"`` or ``F1``.
    policy : Policy or callable, optional
        A network over the encoded observation, or a rule that returns 1 to accept and 0 to reject. By default all is
        accepted, which is the base policy alone, with backfilling.
    name : str, optional
        For records and tables; by default ``"inspector-BASE"``.
    **rules
        Further arguments of :class:`~desim.problems.batch.inspection.Inspection`.

    Raises
    ------
    InvalidConfiguration
        If there is no such base policy, or a rule is out of range.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.batch import BatchCluster, Job
    >>> jobs = [Job(1, 0.0, 1, 10.0, 10.0), Job(2, 20.0, 2, 5.0, 5.0)]
    >>> simulate(BatchCluster(jobs, num_cores=2), Inspector("smallest-first")).jobs["starting_time"].to_list()
    [0.0, 20.0]
    >>> patient = Inspector("smallest-first", lambda seen: int(seen["features"][0] > 0))  # accept what has waited
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
        """Return the agent of a configuration and a network; its name is for records and tables."""
        return cls(config.base, policy, name=name, **config.rules())

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the last run; on nodes it is an InvalidConfiguration."""
        refuse_nodes(simulation_info, self.name, f"easy-{self.inspection.base.name}")
        self.inspection.reset()
        self.rng = rng

    def act(self, observation: BatchObservation) -> Answer:
        """Return the job to start, jobs to backfill, or for how long to wait at most."""
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
    """Two networks of which the critic learns faster, as in the released program."""

    def rates(self) -> dict[str, float]:
        """Return the rate of the critic, 1e-3 where the actor's is 3e-4."""
        return {"critic": 10 / 3}


@dataclass(frozen=True)
class SchedInspectorConfig(AgentConfig[MLPPolicy]):
    """Base policy, rules and network of the program that was released with SchedInspector.

    Parameters
    ----------
    base : str
        The priority that chooses; see ``desim list``.
    hidden : tuple of int
        Units of the hidden layers, of actor and critic each.
    max_rejections : int
        Most rejections of a job, outside training.
    interval : float
        Longest time from a rejection to the next question, in seconds.
    """

    agent_kind: ClassVar[str] = "schedinspector"

    base: str = "sjf"
    hidden: tuple[int, ...] = (32, 16, 8)
    max_rejections: int = 72
    interval: float = 600.0

    def rules(self) -> dict[str, Any]:
        """Return the arguments of :class:`~desim.problems.batch.inspection.Inspection` beside the base policy."""
        return {"max_rejections": self.max_rejections, "interval": self.interval}

    def policy(self, rng: np.random.Generator) -> MLPPolicy:
        """Return a new network."""
        inputs = {"features": len(INSPECTION_FEATURES)}
        return drawn(ReleasedNetwork(inputs, 2, rng, hidden=self.hidden, activation="relu"), rng)


class SchedInspector(Inspector):
    """The inspector of the program that was released with SchedInspector: actions are drawn, outside training, too.

    The parameters are those of :class:`Inspector`; base policy and features are the released program's.
    """

    config_type = SchedInspectorConfig
    base_type = ReleasedBase
    encoder_type = ReleasedEncoder

    def _judge(self, encoded: Arrays) -> int:
        if not isinstance(self.policy, Policy):
            return super()._judge(encoded)
        with torch.inference_mode(), one_thread():
            shown = to_tensors({name: array[None] for name, array in encoded.items()})
            return int(self.policy(shown)[0].sample(self.rng))
