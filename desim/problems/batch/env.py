"""The batch cluster as a Gymnasium environment: episodes cut from traces, and rewards.

The reward of the DBF paper hardly penalizes a policy whose queue grows without bound, because it divides queue length
and waiting time by their maxima so far. :class:`ScaledReward` divides by constants instead. :class:`WaitingCost` is
directly the quantity to minimize.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, cast

import numpy as np

from desim import plugins
from desim.checks import check_choice, check_float, check_int, named
from desim.core import Decision, Simulation
from desim.envs.base import Encoder, Episodes, Reward, SchedulingEnv
from desim.exceptions import InvalidConfiguration
from desim.problem import Problem
from desim.problems.batch import BatchCluster, Job, Node, NodeTable, PlacementPolicy, WaitForCores
from desim.problems.batch.encoders import FeatureEncoder, FlatEncoder, SplitWindow, WindowEncoder
from desim.problems.batch.node_encoder import NodeFeatureEncoder
from desim.problems.batch.windows import shifted
from desim.problems.batch.workload import Workload
from desim.processes import stop_after

__all__ = [
    "REWARDS",
    "BatchEnv",
    "MixedEpisodes",
    "PaperReward",
    "ScaledReward",
    "TraceEpisodes",
    "WaitingCost",
    "make_encoder",
    "make_reward",
]


class TraceEpisodes:
    """Generator of episodes that start at random positions of traces, with an empty cluster.

    Source: Wang, Harwood and Rodriguez, HPCC 2022: an episode ends when 1,000 jobs have been started, whether or not
    other jobs are queued.

    Parameters
    ----------
    traces : sequence of sequences of Job
        Traces, each in order of submission; every episode comes from one of them.
    num_cores : int, optional
        Number of cores of the cluster; omit it with ``nodes``.
    num_jobs : int
        Number of jobs per episode, at least 1.
    arrivals : {"closed", "open"}
        Closed: exactly num_jobs jobs arrive, and the episode ends when all of them have ended. Open: jobs keep
        arriving, and the episode is truncated at the num_jobs-th start.
    **cluster
        Other arguments of :class:`~desim.problems.batch.BatchCluster`, such as ``nodes``.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or a trace has fewer than num_jobs jobs.
    """

    def __init__(
        self,
        traces: Sequence[Sequence[Job]],
        num_cores: int | None = None,
        *,
        num_jobs: int = 1_000,
        arrivals: Literal["open", "closed"] = "closed",
        **cluster: Any,
    ) -> None:
        self.num_jobs = check_int("num_jobs", num_jobs, least=1)
        self.arrivals = check_choice("arrivals", arrivals, ("open", "closed"))
        if not traces:
            raise InvalidConfiguration("traces: got none, expected at least one")
        for number, trace in enumerate(traces):
            if len(trace) < num_jobs:
                raise InvalidConfiguration(
                    f"traces[{number}]: got {len(trace)} jobs, expected at least num_jobs={num_jobs}"
                )
        # jobs of an episode depend on no others, and all of them are measured
        self.traces = [Workload.of(trace).as_window(None).with_columns(after=None) for trace in traces]
        self.num_cores = num_cores
        if cluster.get("nodes") is not None and not isinstance(cluster["nodes"], NodeTable):
            cluster["nodes"] = NodeTable(cluster["nodes"])  # built once for all episodes
        self._cluster = cluster
        self._processes = (*cluster.pop("processes", ()),)
        if arrivals == "open":
            self._processes += (stop_after("start", num_jobs),)

    def starts(self, trace: int) -> int:
        """Return the number of positions of a trace at which an episode can start.

        In an open episode more jobs arrive than are started. Its start is therefore followed by at least as many
        jobs as two episodes have, if the trace is long enough.

        Parameters
        ----------
        trace : int
            Index of the trace.
        """
        length = len(self.traces[trace])
        behind = self.num_jobs if self.arrivals == "closed" else 2 * self.num_jobs
        return max(length - behind, 0) + 1

    def at(self, start: int, trace: int = 0) -> BatchCluster:
        """Return the episode that starts with a given job, which arrives at time 0.

        Parameters
        ----------
        start : int
            Position of the first job in its trace.
        trace : int
            Index of the trace.

        Returns
        -------
        BatchCluster
            Problem to simulate.

        Raises
        ------
        InvalidConfiguration
            If the trace or the job does not exist.
        """
        if not 0 <= trace < len(self.traces) or not 0 <= start < len(self.traces[trace]):
            raise InvalidConfiguration(
                f"start: there is no job {start!r} in trace {trace!r}; there are {len(self.traces)} traces"
            )
        log = self.traces[trace]
        rows = slice(start, start + self.num_jobs if self.arrivals == "closed" else len(log))
        jobs = shifted(log, rows, float(log["submission_time"][start]))
        return BatchCluster(jobs, self.num_cores, processes=self._processes, **self._cluster)

    def fixed(self, count: int, seed: int) -> list[BatchCluster]:
        """Return a fixed list of episodes, the same for the same seed.

        Parameters
        ----------
        count : int
            Number of episodes.
        seed : int
            Seed of the start positions.

        Returns
        -------
        list of BatchCluster
            Problems, for instance to compare agents on the same episodes.
        """
        rng = np.random.default_rng(seed)
        return [self(rng) for _ in range(count)]

    def draw(self, rng: np.random.Generator) -> tuple[int, int]:
        """Draw an episode.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        tuple of int
            Position of the first job in its trace, and index of the trace.
        """
        trace = int(rng.integers(len(self.traces)))
        return int(rng.integers(self.starts(trace))), trace

    def __call__(self, rng: np.random.Generator) -> BatchCluster:
        """Return an episode that starts at a random position of a random trace."""
        return self.at(*self.draw(rng))


class MixedEpisodes:
    """Generator of episodes of several generators, each equally likely, such as for clusters of several sizes.

    Parameters
    ----------
    parts : sequence of TraceEpisodes
        Generators, at least one.
    """

    def __init__(self, parts: Sequence[TraceEpisodes]) -> None:
        self.parts = tuple(parts)

    def draw(self, rng: np.random.Generator) -> tuple[int, int, int]:
        """Draw an episode.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        tuple of int
            Index of the generator, position of the first job in its trace, and index of the trace.
        """
        number = int(rng.integers(len(self.parts)))
        return number, *self.parts[number].draw(rng)

    def __call__(self, rng: np.random.Generator) -> BatchCluster:
        """Return an episode of a random generator."""
        number, start, trace = self.draw(rng)
        return self.parts[number].at(start, trace)


class PaperReward:
    """Reward of the DBF paper, eq. (2), earned at the end of each scheduling cycle.

    It is -w1 (1 - utilization) - w2 L / Lmax - w3 W / Wmax. L is the number of queued jobs, W the sum of their waiting
    times in seconds, and Lmax and Wmax are the largest values so far in the episode; 0 / 0 counts as 0. Starting a job
    earns 0. A cycle whose last start empties the queue ends without a decision and earns nothing.

    Parameters
    ----------
    weights : tuple of three floats
        Weights of idle cores, queue length and waiting time.

    Raises
    ------
    InvalidConfiguration
        If there are not three weights, or one is negative.
    """

    def __init__(self, weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)) -> None:
        if len(weights) != 3 or min(weights) < 0:
            raise InvalidConfiguration(f"weights: got {weights!r}, expected three numbers >= 0")
        self.weights = weights

    def reset(self, simulation: Simulation) -> None:
        """Start an episode."""
        self._observation: Any = simulation.problem.observation  # type: ignore[attr-defined]
        self._earned = 0.0
        self._longest = self._largest = 0.0

    def on_decision(self, answer: Any) -> None:
        """Add the reward of a cycle if the answer ends it."""
        if answer is None:
            seen = self._observation
            length = len(seen.queue)
            waiting = length * seen.time - float(seen.queue.submission_time.sum())
            self._earned -= self._cost(1.0 - seen.free_cores / seen.num_cores, length, waiting)

    def _cost(self, utilization: float, length: int, waiting: float) -> float:
        self._longest, self._largest = max(self._longest, length), max(self._largest, waiting)
        idle, queue, wait = self.weights
        cost = idle * (1.0 - utilization)
        if length:
            cost += queue * length / self._longest
        if waiting > 0:
            cost += wait * waiting / self._largest
        return cost

    def pop_reward(self) -> float:
        """Return the reward earned since the last call."""
        earned, self._earned = self._earned, 0.0
        return earned


class ScaledReward(PaperReward):
    """Reward of the DBF paper with constants instead of the largest values so far.

    Parameters
    ----------
    weights : tuple of three floats
        Weights of idle cores, queue length and waiting time.
    queue_length : float
        Number of queued jobs that is scaled to 1.
    waiting_time : float
        Sum of their waiting times that is scaled to 1, in seconds.

    Raises
    ------
    InvalidConfiguration
        If there are not three weights, a weight is negative, or a scale is not above 0.
    """

    def __init__(
        self,
        weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
        queue_length: float = 50.0,
        waiting_time: float = 1e6,
    ) -> None:
        super().__init__(weights)
        self.queue_length = check_float("queue_length", queue_length, above=0)
        self.waiting_time = check_float("waiting_time", waiting_time, above=0)

    def _cost(self, utilization: float, length: int, waiting: float) -> float:
        idle, queue, wait = self.weights
        scaled = queue * length / self.queue_length + wait * waiting / self.waiting_time
        return idle * (1.0 - utilization) + scaled


class WaitingCost:
    """Negative waiting time of all jobs, charged while they wait, scaled and raised to a power.

    The sum over an episode is minus the sum of (waiting time / scale) ** power over all its jobs, including those
    still queued. The queue does not change between decisions, so the sum is exact. A power above 1 penalizes one long
    wait more than many short ones.

    Parameters
    ----------
    scale : float
        Waiting time in seconds for which a job earns -1.
    power : float
        Exponent, at least 1.

    Attributes
    ----------
    counts_arrivals : bool
        Whether the reward listens to arrivals, so that decisions without a choice may be skipped.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    counts_arrivals = True

    def __init__(self, scale: float = 10_000.0, power: float = 1.0) -> None:
        self.scale = check_float("scale", scale, above=0)
        self.power = check_float("power", power, least=1)

    def reset(self, simulation: Simulation) -> None:
        """Start an episode."""
        self._simulation = simulation
        self._length, self._time = 0, 0.0
        self._submissions = np.zeros(0)
        self._cost = 0.0
        simulation.problem.on("arrival", self._arrive)

    def _arrive(self, time: float, job: Job) -> None:
        """Count an arrival even if it triggers no decision."""
        self._count(time)
        self._length += 1
        if self.power > 1:
            self._submissions = np.append(self._submissions, job.submission_time)

    def on_decision(self, answer: Any) -> None:
        """Charge the time since the last update and take over the current queue."""
        self._count(self._simulation.env.now)
        queue = self._simulation.problem.observation.queue  # type: ignore[attr-defined]  # begins as an UnreadQueue
        self._length = len(queue)
        if self.power > 1:
            self._submissions = queue.submission_time.copy()

    def _count(self, time: float) -> None:
        if self.power == 1:
            self._cost += self._length * (time - self._time) / self.scale
        elif time > self._time:
            before, after = ((instant - self._submissions) / self.scale for instant in (self._time, time))
            self._cost += float((after**self.power - before**self.power).sum())
        self._time = time

    def pop_reward(self) -> float:
        """Return the reward earned since the last call."""
        self._count(self._simulation.end_time)
        cost, self._cost = self._cost, 0.0
        return -cost


REWARDS: dict[str, Callable[[], Reward]] = {
    "paper": PaperReward,
    "scaled": ScaledReward,
    "waiting": WaitingCost,
    "long-waits": lambda: WaitingCost(100_000.0, 4.0),
}
"""Rewards by name; ``long-waits`` is the waiting cost to the fourth power."""


def make_reward(reward: str | Reward) -> Reward:
    """Return the reward with a given name, or the given reward itself.

    Parameters
    ----------
    reward : str or Reward
        Name in :data:`REWARDS`, or a reward.

    Returns
    -------
    Reward
        Reward for use by a single environment.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown.
    """
    return named("reward", reward, REWARDS)


class BatchEnv(SchedulingEnv):
    """``desim/Batch-v0``: environment in which each action starts a job of a split window, or ends the cycle.

    The action space is Discrete(M + 1): a slot of the window, or M, which ends the scheduling cycle. With ``nodes``,
    the placement policy of the cluster chooses the nodes of a job. If the action chooses them instead, the space is
    Discrete(M N + 1), see :class:`~desim.problems.batch.node_encoder.NodeFeatureEncoder`.

    Parameters
    ----------
    jobs : sequence of Job, or callable, optional
        Trace from which episodes are cut, or a function that creates the problem of an episode from a random
        generator. By default, jobs of the Lublin-Feitelson model are sampled once per environment, at an offered load
        of 1, see :func:`desim.workloads.batch.registry.draw`; they request cores only.
    num_cores : int, optional
        Number of cores of the cluster (default: 256); omit it with ``nodes``.
    nodes : iterable of Node, optional
        Nodes of the cluster. If a function creates the problems, the nodes that are shown; its clusters may have
        fewer.
    placement : str or PlacementPolicy, optional
        Policy that chooses nodes for the jobs of a trace, see :class:`~desim.problems.batch.BatchCluster`.
    action : {"job", "job-on-node"}
        What an action chooses in a cluster of nodes: a job, or a job and its node.
    window : tuple of two ints, or sequence of such tuples
        Numbers of slots for the head and the tail of the queue. Of several windows, each episode uses one at random;
        the arrays have as many slots as the largest.
    observation : {"features", "flat", "node-classes"} or Encoder
        What the agent observes: features of jobs and cluster, or the observation of the DBF paper. Features of nodes
        have one row per node, or, with ``"node-classes"``, one row for all nodes that are alike, which keeps the
        arrays of large clusters small.
    reward : {"waiting", "paper", "scaled", "long-waits"} or Reward
        Reward, or the name of one in :data:`REWARDS`.
    num_jobs : int
        Number of jobs per episode.
    arrivals : {"closed", "open"}
        Whether num_jobs jobs arrive and all are run to the end, or jobs keep arriving until num_jobs have been started.
    until : float
        Time in seconds at which an episode is truncated.
    max_decisions : int, optional
        Number of decisions after which an episode is truncated (default: 20 times num_jobs).
    skip_forced : bool
        Whether to skip decisions in which no job of the window may start. If the reward ``counts_arrivals``, as
        :class:`WaitingCost` does, the cluster then requests no decision while none of them fits.
    render_mode : {"ansi", "rgb_array"}, optional
        What ``render`` returns, see :class:`~desim.envs.SchedulingEnv`.
    reserve_after : float
        Seconds of waiting after which the oldest queued job gets a reservation: jobs that would delay it are then
        infeasible. For ``"features"`` only.
    workload_seed : int
        Seed of the default jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If the package that generates the default jobs is not installed.
    """

    def __init__(
        self,
        jobs: Sequence[Job] | Episodes | None = None,
        num_cores: int | None = None,
        *,
        nodes: Iterable[Node] | NodeTable | None = None,
        placement: str | PlacementPolicy | None = None,
        action: Literal["job", "job-on-node"] = "job",
        window: tuple[int, int] | Sequence[tuple[int, int]] = (16, 16),
        observation: str | Encoder = "features",
        reward: str | Reward = "waiting",
        num_jobs: int = 1_000,
        arrivals: Literal["open", "closed"] = "closed",
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        render_mode: str | None = None,
        reserve_after: float = math.inf,
        workload_seed: int = 0,
    ) -> None:
        machine: dict[str, Any] = {}
        if nodes is not None:
            if num_cores is not None:
                raise InvalidConfiguration("nodes: got num_cores as well, expected only one of them")
            nodes = nodes if isinstance(nodes, NodeTable) else NodeTable(nodes)
            machine = {"nodes": nodes, "placement": placement}
        elif placement is not None or action != "job":
            raise InvalidConfiguration(f"got placement={placement!r} and action={action!r} without nodes; give nodes")
        elif num_cores is None:
            num_cores = 256
        if jobs is None:
            make = plugins.episode_workload("batch")
            rng = np.random.default_rng(workload_seed)
            cores = num_cores if nodes is None else nodes.num_cores
            jobs = cast(list[Job], make(rng, num_jobs=10 * num_jobs, num_cores=cores, load=1.0))
        if not callable(jobs):
            jobs = TraceEpisodes([jobs], num_cores, num_jobs=num_jobs, arrivals=arrivals, **machine)
        elif placement is not None:
            raise InvalidConfiguration("placement: needs a trace; a function in jobs chooses the placement itself")
        self.windows = _windows(window)
        slots = max(one.size for one in self.windows)
        if isinstance(observation, str):
            observation = make_encoder(
                observation,
                self.windows[0],
                num_cores,
                slots=slots,
                reserve_after=reserve_after,
                nodes=nodes,
                action=action,
            )
        super().__init__(
            jobs,
            observation,
            make_reward(reward),
            until=until,
            max_decisions=20 * num_jobs if max_decisions is None else max_decisions,
            skip_forced=skip_forced,
            render_mode=render_mode,
        )
        self._sees_nodes = isinstance(self.encoder, NodeFeatureEncoder)
        self._spares = (
            skip_forced
            and isinstance(self.encoder, WindowEncoder)
            and not self._sees_nodes
            and getattr(self.reward, "counts_arrivals", False)
        )

    def _advance(self, simulation: Simulation) -> Decision | None:
        """Run to the next decision that the agent sees."""
        if not self._spares:
            return super()._advance(simulation)
        encoder = cast(WindowEncoder, self.encoder)
        answer: WaitForCores | None
        while (decision := simulation.advance()) is not None:
            seen = decision.observation
            if cores := encoder.awaited_cores(seen):
                answer = WaitForCores(cores)
            elif (encoder.reserve_after == math.inf and len(seen.queue)) or not encoder.is_forced(seen):
                return decision
            else:  # nothing is queued, or nothing may start beside the reserved job
                answer = None
            decision.answer(answer)
            self.reward.on_decision(answer)
        return None

    def next_problem(self) -> Problem:
        """Return the problem of an episode; with several windows, choose one."""
        rng = self.np_random
        if len(self.windows) > 1:
            self.encoder.window = self.windows[int(rng.integers(len(self.windows)))]  # type: ignore[attr-defined]
        problem = super().next_problem()
        if (problem.describe()["resources"] == "nodes") != self._sees_nodes and isinstance(self.encoder, WindowEncoder):
            raise InvalidConfiguration(
                "nodes: given to the environment, but the problem of this episode has none"
                if self._sees_nodes
                else "nodes: the problem of this episode has nodes; give nodes to the environment as well"
            )
        return problem


def _windows(window: tuple[int, int] | Sequence[tuple[int, int]]) -> list[SplitWindow]:
    if not len(window):
        raise InvalidConfiguration("window: got none, expected (head, tail) numbers of slots")
    given = [window] if isinstance(window[0], int | np.integer) else window
    return [SplitWindow(*one) for one in given]  # type: ignore[misc]  # either is a sequence of pairs now


def make_encoder(
    observation: str,
    window: SplitWindow,
    num_cores: int | None = None,
    *,
    slots: int | None = None,
    reserve_after: float = math.inf,
    nodes: NodeTable | None = None,
    action: Literal["job", "job-on-node"] = "job",
) -> WindowEncoder:
    """Return the encoder with a given name.

    Parameters
    ----------
    observation : str
        ``"features"``, ``"flat"`` or ``"flat-sorted"``; for nodes, ``"features"`` or ``"node-classes"``.
    window : SplitWindow
        Window onto the queue.
    num_cores : int, optional
        Number of cores of the cluster, required by ``"flat"`` and ``"flat-sorted"``.
    slots : int, optional
        Number of slots of the arrays, for features (default: the number of slots of the window).
    reserve_after : float
        Seconds of waiting after which the oldest queued job gets a reservation, for features without nodes.
    nodes : NodeTable, optional
        Nodes that are shown.
    action : {"job", "job-on-node"}
        What an action chooses in a cluster of nodes: a job, or a job and its node.

    Returns
    -------
    WindowEncoder
        Encoder for any number of environments and agents.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown, or the encoder does not support an argument.
    """
    if nodes is not None:
        if reserve_after < math.inf:
            raise InvalidConfiguration(f"reserve_after: got {reserve_after!r}, but nodes support no reservation")
        rows = _ROWS[check_choice("observation", observation, tuple(_ROWS))]
        return NodeFeatureEncoder(window, nodes, slots, rows=rows, action=action)
    if observation == "features":
        return FeatureEncoder(window, slots, reserve_after=reserve_after)
    if observation in _ROWS:
        raise InvalidConfiguration(f"observation: {observation!r} shows nodes; give nodes as well")
    order = _ORDERS[check_choice("observation", observation, ("features", *_ORDERS))]
    if slots not in (None, window.size) or reserve_after < math.inf:
        raise InvalidConfiguration(f"observation: {observation!r} supports neither extra slots nor reserve_after")
    if num_cores is None:
        raise InvalidConfiguration(f"num_cores: got None, but the observation {observation!r} needs it")
    return FlatEncoder(window, num_cores, order=order)


_ROWS: dict[str, Literal["each", "alike"]] = {"features": "each", "node-classes": "alike"}
"""Rows of nodes of an encoder, by observation."""
_ORDERS: dict[str, Literal["by_core", "sorted"]] = {"flat": "by_core", "flat-sorted": "sorted"}
"""Order of the cores in the observation of the DBF paper, by observation."""
