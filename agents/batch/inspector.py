"""SchedInspector: a network that accepts or rejects what a base policy chooses.

Source: Zhang, Dai and Xie, "SchedInspector: a batch job scheduling inspector using reinforcement learning", HPDC 2022.
Departures: features are logarithms where they span decades, and the base policy back-fills in its own order, by EASY's
condition.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from desim.agents.batch.backfilling import EASYBackfilling
from desim.agents.batch.inspector_network import InspectorConfig
from desim.agents.batch.orders import as_priority
from desim.agents.batch.priorities import Priority
from desim.agents.learning.policy import Policy, action_for
from desim.agents.learning.pretrained import pretrained_stem
from desim.envs.base import Arrays
from desim.problems.batch import BatchObservation, Queue
from desim.problems.batch.inspection import Answer, Inspection, InspectionEncoder, Question

__all__ = ["BackfilledPriority", "Inspector", "Rule"]

Rule = Callable[[Arrays], int]
"""Says of the encoded observation of a question: 1 to accept, 0 to reject."""


class BackfilledPriority:
    """A priority order, with EASY back-filling in the same order: the base policy of an inspector.

    Parameters
    ----------
    order : str, Priority, or class of Priority
        Which job comes first, for example ``"sjf-cores"`` or ``F1``.
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
        return self._easy.act(observation)  # type: ignore[return-value]  # cores are not named


class _Reserving(Priority):
    """The same order, but for the job that has the reservation."""

    position = 0

    def __init__(self, priority: Priority) -> None:
        self._priority = priority
        self.scores = priority.scores  # type: ignore[method-assign]

    def first(self, queue: Queue, time: float) -> int:
        return self.position


class Inspector:
    """Follows a base policy's choices, or rejects them for a while.

    Parameters
    ----------
    base : str, Priority, or class of Priority
        The base policy, for example ``"sjf-cores"`` or ``F1``.
    policy : Policy or callable, optional
        A network over the encoded observation, or a rule that returns 1 to accept and 0 to reject. By default all is
        accepted, which is the base policy alone, with back-filling.
    name : str, optional
        For records and tables; by default ``"inspector-BASE"``.
    greedy : bool
        Take the network's most likely action; otherwise draw one.
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
    >>> simulate(BatchCluster(jobs, num_cores=2), Inspector("sjf-cores")).jobs["starting_time"].to_list()
    [0.0, 20.0]
    >>> patient = Inspector("sjf-cores", lambda seen: int(seen["features"][0] > 0))  # accept what has waited
    >>> simulate(BatchCluster(jobs, num_cores=2), patient).jobs["starting_time"].to_list()
    [20.0, 30.0]
    """

    def __init__(
        self,
        base: str | Priority | type[Priority],
        policy: Policy | Rule | None = None,
        *,
        name: str | None = None,
        greedy: bool = True,
        **rules: Any,
    ) -> None:
        self.inspection = Inspection(BackfilledPriority(base), **rules)
        self.encoder = InspectionEncoder(self.inspection)
        self.policy = policy.eval() if isinstance(policy, Policy) else policy
        self.name = f"inspector-{self.inspection.base.name}" if name is None else name
        self.greedy = greedy
        self.reset({}, np.random.default_rng(0))

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the last run.

        Parameters
        ----------
        simulation_info : dict
            The problem's ``describe()``.
        rng : numpy.random.Generator
            For drawn actions.
        """
        self._rng = rng
        self.inspection.reset()

    def act(self, observation: BatchObservation) -> Answer:
        """Return the job to start, jobs to back-fill, or for how long to wait at most."""
        found = self.inspection.next(observation)
        if not isinstance(found, Question):
            return found
        if self.policy is None:
            return self.inspection.decide(observation, accept=True)
        return self.encoder.decode(observation, self._choose(self.encoder.encode(observation)))[0]

    def _choose(self, encoded: Arrays) -> int:
        if not isinstance(self.policy, Policy):
            assert self.policy is not None
            return int(self.policy(encoded))
        return int(action_for(self.policy, encoded, None if self.greedy else self._rng))

    @classmethod
    def of(cls, config: InspectorConfig, policy: Policy, **options: Any) -> Inspector:
        """Return the agent that a configuration describes.

        Parameters
        ----------
        config : InspectorConfig
            Base policy and rules.
        policy : Policy
            The network.
        **options
            ``name`` and ``greedy``.

        Returns
        -------
        Inspector
            Ready to act.
        """
        return cls(config.base, policy, **config.rules(), **options)

    @classmethod
    def load(cls, stem: str | Path, *, greedy: bool = True) -> Inspector:
        """Return an agent with trained weights.

        Parameters
        ----------
        stem : str or Path
            The files, without ``.safetensors`` and ``.json``.
        greedy : bool
            Take the most likely action; otherwise draw one.

        Returns
        -------
        Inspector
            Named after the files.

        Raises
        ------
        RecordError
            If the files are missing or broken.
        InvalidConfiguration
            If they hold something else.
        """
        config, policy = InspectorConfig.load(stem)
        return cls.of(config, policy, name=Path(stem).name, greedy=greedy)

    @classmethod
    def pretrained(cls, name: str, *, greedy: bool = True) -> Inspector:
        """Return an agent with weights that come with this package.

        Parameters
        ----------
        name : str
            For example ``"lublin256-inspector-f1"``.
        greedy : bool
            As for :meth:`load`.

        Raises
        ------
        InvalidConfiguration
            If there is none of this name.
        """
        return cls.load(pretrained_stem(name, InspectorConfig.agent_kind), greedy=greedy)
