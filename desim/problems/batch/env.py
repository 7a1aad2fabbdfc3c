"""The batch cluster as a Gymnasium environment: episodes cut from traces, rewards, the environment.

With the reward of the DBF paper, a policy that lets the queue explode is forgiven, because queue length and waiting
time are divided by their maxima so far; :class:`ScaledReward` divides by constants, and :class:`WaitingCost` is the
very quantity that is to be small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np

from desim import plugins
from desim.checks import check_choice
from desim.core import Decision, Simulation
from desim.envs.base import Encoder, Episodes, Reward, SchedulingEnv
from desim.exceptions import InvalidConfiguration
from desim.problem import Problem
from desim.problems.batch import BatchCluster, Job, Node, NodeCluster, NodeTable, PlacementPolicy, WaitForCores
from desim.problems.batch.encoders import FeatureEncoder, FlatEncoder, SplitWindow, WindowEncoder
from desim.problems.batch.node_encoder import NodeFeatureEncoder
from desim.processes import stop_after

__all__ = [
    "REWARDS",
    "BatchEnv",
    "PaperReward",
    "ScaledReward",
    "TraceEpisodes",
    "WaitingCost",
    "make_encoder",
    "make_reward",
]


class TraceEpisodes:
    """Episodes that begin at random points of traces, with an empty cluster.

    Source: Wang, Harwood and Rodriguez, HPCC 2022: an episode ends when 1,000 jobs have been started, whether or not
    jobs are queued.

    Parameters
    ----------
    traces : sequence of sequences of Job
        Each in order of submission; an episode comes from one of them.
    num_cores : int, optional
        Cores of the cluster, unless it has ``nodes``.
    num_jobs : int
        Jobs of an episode, at least 1.
    arrivals : {"open", "closed"}
        Open: the stream goes on, and the episode is cut short at the num_jobs-th start. Closed: exactly num_jobs jobs
        arrive, and the episode ends with the last of them.
    **cluster
        Further arguments of :class:`~desim.problems.batch.BatchCluster`, such as ``nodes``.

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
        arrivals: Literal["open", "closed"] = "open",
        **cluster: Any,
    ) -> None:
        if num_jobs < 1:
            raise InvalidConfiguration(f"num_jobs is {num_jobs!r}, want at least 1")
        if arrivals not in ("open", "closed"):
            raise InvalidConfiguration(f"arrivals is {arrivals!r}, want 'open' or 'closed'")
        if not traces:
            raise InvalidConfiguration("there is no trace to cut episodes from")
        for number, trace in enumerate(traces):
            if len(trace) < num_jobs:
                raise InvalidConfiguration(f"trace {number} has {len(trace)} jobs, an episode {num_jobs}")
        self.traces = traces
        self.num_cores = num_cores
        self.num_jobs = num_jobs
        self.arrivals = arrivals
        if cluster.get("nodes") is not None and not isinstance(cluster["nodes"], NodeTable):
            cluster["nodes"] = NodeTable(cluster["nodes"])  # once for all episodes
        self._cluster = cluster
        self._processes = (*cluster.pop("processes", ()),)
        if arrivals == "open":
            self._processes += (stop_after("start", num_jobs),)

    def starts(self, trace: int) -> int:
        """Return at how many positions of a trace an episode can begin.

        Of a long trace, as many jobs as in two episodes stay behind the last position: in an open episode more
        jobs arrive than are started.

        Parameters
        ----------
        trace : int
            Which trace.
        """
        length = len(self.traces[trace])
        behind = self.num_jobs if self.arrivals == "closed" else 2 * self.num_jobs
        return max(length - behind, 0) + 1

    def at(self, start: int, trace: int = 0) -> BatchCluster:
        """Return the episode that begins with a given job, which arrives at time 0.

        Parameters
        ----------
        start : int
            Position of the first job in its trace.
        trace : int
            Which trace.

        Returns
        -------
        BatchCluster
            To be simulated.

        Raises
        ------
        InvalidConfiguration
            If there is no such trace or job.
        """
        if not 0 <= trace < len(self.traces) or not 0 <= start < len(self.traces[trace]):
            raise InvalidConfiguration(f"no job {start!r} in trace {trace!r} of {len(self.traces)}")
        end = start + self.num_jobs if self.arrivals == "closed" else len(self.traces[trace])
        jobs = _Shifted(self.traces[trace], start, end)
        return BatchCluster(jobs, self.num_cores, processes=self._processes, **self._cluster)

    def fixed(self, count: int, seed: int) -> list[BatchCluster]:
        """Return a number of episodes that are the same for everybody who asks with the same seed.

        Parameters
        ----------
        count : int
            How many.
        seed : int
            Of the positions.

        Returns
        -------
        list of BatchCluster
            To be simulated with one agent after another.
        """
        rng = np.random.default_rng(seed)
        return [self(rng) for _ in range(count)]

    def __call__(self, rng: np.random.Generator) -> BatchCluster:
        """Return an episode that begins at a random point of a random trace."""
        trace = int(rng.integers(len(self.traces)))
        return self.at(int(rng.integers(self.starts(trace))), trace)


class _Shifted:
    """Jobs of a trace from one position to another, the first of them at time 0; made while they are read."""

    def __init__(self, trace: Sequence[Job], start: int, end: int) -> None:
        self._trace, self._start, self._end = trace, start, min(end, len(trace))

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[Job]:
        origin = self._trace[self._start].submission_time
        for position in range(self._start, self._end):
            job = self._trace[position]
            job_id, submission, cores, requested_time, run_time, user_id = job
            if isinstance(job, Job) and type(job) is not Job:  # it has more to it, such as what it requests of nodes
                yield job._replace(submission_time=submission - origin)
            else:
                yield Job(job_id, submission - origin, cores, requested_time, run_time, user_id)


class PaperReward:
    """The reward of the DBF paper, eq. (2): earned when a scheduling cycle is ended, at that time.

    It is -w1 (1 - utilization) - w2 L / Lmax - w3 W / Wmax, with L the number of queued jobs, W the sum of their
    waiting times in seconds, and the largest values of both so far in the episode; 0 / 0 counts as 0. A job's start
    earns 0. A cycle whose last start empties the queue is over without a question, and earns nothing.

    Parameters
    ----------
    weights : tuple of three floats
        Of idle cores, queue length and waiting time.

    Raises
    ------
    InvalidConfiguration
        If there are not three weights, or one is negative.
    """

    def __init__(self, weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)) -> None:
        if len(weights) != 3 or min(weights) < 0:
            raise InvalidConfiguration(f"the weights are {weights!r}, want three numbers of at least 0")
        self.weights = weights

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._observation: Any = simulation.problem.observation  # type: ignore[attr-defined]
        self._earned = 0.0
        self._longest = self._largest = 0.0

    def on_decision(self, answer: Any) -> None:
        """Earn what the end of a cycle is worth, if the answer was to wait."""
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
        """Return what was earned since the last call."""
        earned, self._earned = self._earned, 0.0
        return earned


class ScaledReward(PaperReward):
    """The same with constants in place of the largest values so far.

    Parameters
    ----------
    weights : tuple of three floats
        Of idle cores, queue length and waiting time.
    queue_length : float
        Number of queued jobs that stands for 1.
    waiting_time : float
        Sum of their waiting times that stands for 1, in seconds.

    Raises
    ------
    InvalidConfiguration
        If there are not three weights, one is negative, or a scale is not above 0.
    """

    def __init__(
        self,
        weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
        queue_length: float = 50.0,
        waiting_time: float = 1e6,
    ) -> None:
        super().__init__(weights)
        if not (queue_length > 0 and waiting_time > 0):
            raise InvalidConfiguration(f"the scales are {queue_length!r} and {waiting_time!r}, want values above 0")
        self.queue_length = queue_length
        self.waiting_time = waiting_time

    def _cost(self, utilization: float, length: int, waiting: float) -> float:
        idle, queue, wait = self.weights
        scaled = queue * length / self.queue_length + wait * waiting / self.waiting_time
        return idle * (1.0 - utilization) + scaled


class WaitingCost:
    """Minus the waiting times of all jobs, as they are spent, over a scale and to a power.

    The sum over an episode is minus the sum of (waiting time / scale) ** power over all its jobs, those still queued
    included. Between decisions the queue does not change, so the sum is exact. A power above 1 tells long waits
    from many short ones.

    Parameters
    ----------
    scale : float
        Waiting time of a job that earns -1, in seconds.
    power : float
        At least 1.

    Attributes
    ----------
    counts_arrivals : bool
        Whether it need not be told of decisions without a choice, since it knows of itself who waits.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    counts_arrivals = True

    def __init__(self, scale: float = 10_000.0, power: float = 1.0) -> None:
        if not scale > 0 or not power >= 1:
            raise InvalidConfiguration(f"scale {scale!r}, power {power!r}: want a time above 0, at least 1")
        self.scale = scale
        self.power = power

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._simulation = simulation
        self._queue = simulation.problem.observation.queue  # type: ignore[attr-defined]
        self._length, self._time = 0, 0.0
        self._submissions = np.zeros(0)
        self._cost = 0.0
        simulation.problem.on("arrival", self._arrive)

    def _arrive(self, time: float, job: Job) -> None:
        """Note that one more waits, should nobody be asked about it."""
        self._count(time)
        self._length += 1
        if self.power > 1:
            self._submissions = np.append(self._submissions, job.submission_time)

    def on_decision(self, answer: Any) -> None:
        """Note how many jobs wait from now on."""
        self._count(self._simulation.env.now)
        self._length = len(self._queue)
        if self.power > 1:
            self._submissions = self._queue.submission_time.copy()

    def _count(self, time: float) -> None:
        if self.power == 1:
            self._cost += self._length * (time - self._time) / self.scale
        elif time > self._time:
            before, after = ((instant - self._submissions) / self.scale for instant in (self._time, time))
            self._cost += float((after**self.power - before**self.power).sum())
        self._time = time

    def pop_reward(self) -> float:
        """Return what was earned since the last call."""
        self._count(self._simulation.end_time)
        cost, self._cost = self._cost, 0.0
        return -cost


REWARDS: dict[str, Callable[[], Reward]] = {
    "paper": PaperReward,
    "scaled": ScaledReward,
    "waiting": WaitingCost,
    "long-waits": lambda: WaitingCost(100_000.0, 4.0),
}
"""The rewards by name; ``long-waits`` is the waiting cost to the fourth power."""


def make_reward(reward: str | Reward) -> Reward:
    """Return a reward by its name; one that is no name is returned as it is.

    Parameters
    ----------
    reward : str or Reward
        One of :data:`REWARDS`, or a reward.

    Returns
    -------
    Reward
        To be used by one environment.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name.
    """
    if not isinstance(reward, str):
        return reward
    if reward not in REWARDS:
        raise InvalidConfiguration(f"no reward {reward!r}; there are {', '.join(REWARDS)}")
    return REWARDS[reward]()


class BatchEnv(SchedulingEnv):
    """``desim/Batch-v0``: which job in a split window starts next, or none.

    The action space is Discrete(M + 1): a slot of the window, or M, which ends the scheduling cycle. With ``nodes`` the
    jobs are put on nodes by the placement policy of the cluster; or the action names a node as well, and the space is
    Discrete(M N + 1), see :class:`~desim.problems.batch.node_encoder.NodeFeatureEncoder`.

    Parameters
    ----------
    jobs : sequence of Job, or callable, optional
        A trace that episodes are cut from, or what makes the problem of an episode from a random generator. By
        default, jobs of the Lublin-Feitelson model are drawn once for the environment, at an offered load of 1, see
        :func:`desim.workloads.batch.registry.draw`; they request cores only.
    num_cores : int, optional
        Cores of the cluster, 256 by default, unless it has nodes.
    nodes : iterable of Node, optional
        The cluster's. If a callable makes the problems, those that are shown: its clusters may have fewer.
    placement : str or PlacementPolicy, optional
        Which nodes jobs of a trace get, see :class:`~desim.problems.batch.NodeCluster`.
    action : {"job", "job-on-node"}
        What an action names, where there are nodes.
    window : tuple of two ints, or sequence of such tuples
        Slots at the head and at the tail of the queue. Of several windows, each episode has one, at random; the arrays
        have as many slots as the largest.
    observation : {"features", "flat", "node-classes"} or Encoder
        What is seen: features of jobs and cluster, or the observation of the DBF paper. Features of nodes have a row a
        node, or, under ``"node-classes"``, one for all nodes that are alike, which keeps large clusters small.
    reward : {"waiting", "paper", "scaled"} or Reward
        What is earned.
    num_jobs : int
        Jobs of an episode.
    arrivals : {"open", "closed"}
        Whether jobs go on arriving until num_jobs have been started, or num_jobs arrive and all are finished.
    until : float
        An episode is truncated at this time, in seconds.
    max_decisions : int, optional
        And after so many decisions; by default, 20 times num_jobs.
    skip_forced : bool
        Do not ask where no job in the window may start. If the reward ``counts_arrivals``, as that for waiting does,
        the cluster itself does not ask either while none of them fits.
    reserve_after : float
        Once the oldest queued job has waited for so long, in seconds, jobs that would delay it are not possible; for
        features.
    workload_seed : int
        Of the default jobs.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    MissingDependency
        If there is no package that makes the default jobs.
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
        arrivals: Literal["open", "closed"] = "open",
        until: float = math.inf,
        max_decisions: int | None = None,
        skip_forced: bool = False,
        reserve_after: float = math.inf,
        workload_seed: int = 0,
    ) -> None:
        machine: dict[str, Any] = {}
        if nodes is not None:
            if num_cores is not None:
                raise InvalidConfiguration("a batch cluster has num_cores or nodes, not both")
            nodes = nodes if isinstance(nodes, NodeTable) else NodeTable(nodes)
            machine = {"nodes": nodes, "placement": placement}
        elif placement is not None or action != "job":
            raise InvalidConfiguration(f"placement is {placement!r} and action {action!r}: give nodes, too")
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
            raise InvalidConfiguration("placement is for a trace: clusters that a callable makes have their own")
        self._workload = jobs
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
            self._episode,
            observation,
            make_reward(reward),
            until=until,
            max_decisions=20 * num_jobs if max_decisions is None else max_decisions,
            skip_forced=skip_forced,
        )
        self._sees_nodes = isinstance(self.encoder, NodeFeatureEncoder)
        self._spares = (
            skip_forced
            and isinstance(self.encoder, WindowEncoder)
            and not self._sees_nodes
            and getattr(self.reward, "counts_arrivals", False)
        )

    def _advance(self, simulation: Simulation) -> Decision | None:
        """Run to the next decision that is shown."""
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
            else:  # nothing is queued, or nothing may start beside the oldest job
                answer = None
            decision.answer(answer)
            self.reward.on_decision(answer)
        return None

    def _episode(self, rng: np.random.Generator) -> Problem:
        """Choose a window, if there are several, and the jobs."""
        if len(self.windows) > 1:
            self.encoder.window = self.windows[int(rng.integers(len(self.windows)))]  # type: ignore[attr-defined]
        problem = self._workload(rng)
        if isinstance(problem, NodeCluster) != self._sees_nodes and isinstance(self.encoder, WindowEncoder):
            raise InvalidConfiguration(
                "an episode has counted cores, but nodes are given to be shown"
                if self._sees_nodes
                else "an episode has nodes, of which counted cores show nothing: give nodes to the environment, too"
            )
        return problem


def _windows(window: tuple[int, int] | Sequence[tuple[int, int]]) -> list[SplitWindow]:
    if not len(window):
        raise InvalidConfiguration("there is no window: want slots at the head and at the tail")
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
    """Return an encoder by its name.

    Parameters
    ----------
    observation : str
        ``"features"``, ``"flat"`` or ``"flat-sorted"``; of nodes, ``"features"`` or ``"node-classes"``.
    window : SplitWindow
        Which jobs are seen.
    num_cores : int, optional
        Cores of the cluster, for the flat ones.
    slots : int, optional
        Slots of the arrays, for features; as many as the window has if left out.
    reserve_after : float
        When the oldest job gets a reservation, in seconds of waiting, for features of counted cores.
    nodes : NodeTable, optional
        Nodes that are shown.
    action : {"job", "job-on-node"}
        What an action names, where there are nodes.

    Returns
    -------
    WindowEncoder
        To be used by any number of environments and agents.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name, or it is bound to its window and more slots are wanted.
    """
    if nodes is not None:
        if reserve_after < math.inf:
            raise InvalidConfiguration(f"reserve_after is {reserve_after!r}, but reservations are of counted cores")
        rows = _ROWS[check_choice("observation", observation, tuple(_ROWS))]
        return NodeFeatureEncoder(window, nodes, slots, rows=rows, action=action)
    if observation == "features":
        return FeatureEncoder(window, slots, reserve_after=reserve_after)
    if observation in _ROWS:
        raise InvalidConfiguration(f"the observation {observation!r} shows nodes: give nodes, too")
    if slots not in (None, window.size) or reserve_after < math.inf:
        raise InvalidConfiguration(f"the observation {observation!r} is for one window, and knows no reservation")
    if observation in ("flat", "flat-sorted") and num_cores is None:
        raise InvalidConfiguration(f"the observation {observation!r} needs num_cores")
    if observation == "flat":
        return FlatEncoder(window, cast(int, num_cores))
    if observation == "flat-sorted":
        return FlatEncoder(window, cast(int, num_cores), order="sorted")
    raise InvalidConfiguration(f"no observation {observation!r}; there are features, flat, flat-sorted")


_ROWS: dict[str, Literal["each", "alike"]] = {"features": "each", "node-classes": "alike"}
"""What rows of nodes show, by observations."""
