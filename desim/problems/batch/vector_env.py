"""Many batch environments in one: compiled episodes that are stepped together."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from desim.envs.base import ACTION_MASK, Arrays, Episodes
from desim.exceptions import DesimError, InvalidConfiguration, WorkloadError, missing
from desim.problem import Problem
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.encoders import FeatureEncoder, FlatEncoder, WindowEncoder
from desim.problems.batch.env import (
    BatchEnv,
    MixedEpisodes,
    PaperReward,
    ScaledReward,
    TraceEpisodes,
    WaitingCost,
)
from desim.problems.batch.workload import Workload
from desim.result import Result

if TYPE_CHECKING:
    from desim.problems.batch.vector_steps import Episodes as State
    from desim.problems.batch.vector_steps import Rules

__all__ = ["BatchVectorEnv"]


class BatchVectorEnv(gymnasium.vector.VectorEnv[Arrays, NDArray[np.int64], NDArray[Any]]):
    """Many :class:`~desim.problems.batch.env.BatchEnv` that a compiled loop steps together.

    The loop serves rigid jobs on counted cores that are killed at their requested times, with the features of the
    window or the observation of the DBF paper, and with the rewards of :mod:`desim.problems.batch.env`; for everything
    else, use ``gymnasium.vector.SyncVectorEnv``. Episodes, masks, rewards and ends are those of single environments
    with the same seeds. Observations are the same, too, but a sum over running jobs may round differently, and so may
    powers of waiting times.

    ``info`` contains ``time``, ``elapsed`` and ``invalid`` of every environment, and ``decisions`` where an episode has
    ended.

    Parameters
    ----------
    num_envs : int
        Number of environments, E, at least 1.
    *arguments
        Arguments of :class:`~desim.problems.batch.env.BatchEnv`. All environments share the jobs.
    skip_forced : bool
        As there, but by default decisions without a choice are skipped.
    autoreset_mode : gymnasium.vector.AutoresetMode
        When an environment whose episode has ended begins the next one: at the next step (default), in the same step,
        or when ``reset`` is called with ``options={"reset_mask": ...}``.
    **options
        Further arguments of :class:`~desim.problems.batch.env.BatchEnv`.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range, or the compiled loop does not serve it.
    MissingDependency
        If numba is not installed.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *arguments: Any,
        skip_forced: bool = True,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **options: Any,
    ) -> None:
        try:
            from desim.problems.batch import vector_steps
        except ImportError as error:
            raise missing("BatchVectorEnv", error) from error
        if num_envs < 1:
            raise InvalidConfiguration(f"num_envs: got {num_envs!r}, expected an integer >= 1")
        self._steps = vector_steps
        self._set_up(BatchEnv(*arguments, skip_forced=skip_forced, **options), num_envs, autoreset_mode)

    @classmethod
    def of(cls, single: BatchEnv, num_envs: int) -> Self:
        """Return many environments like a given one, which begin anew only when :meth:`reset` or :meth:`begin` says so.

        Parameters
        ----------
        single : BatchEnv
            Environment.
        num_envs : int
            Number of environments, E, at least 1.

        Raises
        ------
        InvalidConfiguration
            If the compiled loop does not serve the environment, or a function makes its problems, of which it is
            unknown before they begin.
        MissingDependency
            If numba is not installed.
        """
        if not isinstance(single.episodes, TraceEpisodes | MixedEpisodes):
            raise InvalidConfiguration(f"episodes: got {single.episodes!r}, expected TraceEpisodes or MixedEpisodes")
        made = cls.__new__(cls)
        try:
            from desim.problems.batch import vector_steps
        except ImportError as error:
            raise missing("BatchVectorEnv", error) from error
        made._steps = vector_steps
        made._set_up(single, num_envs, AutoresetMode.DISABLED)
        return made

    def _set_up(self, single: BatchEnv, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        self._check(single)
        self.single = single
        self.num_envs = num_envs
        self.metadata = {**self.single.metadata, "autoreset_mode": AutoresetMode(autoreset_mode)}
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.single_observation_space = self.single.observation_space
        self.single_action_space = self.single.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._encoder = cast(WindowEncoder, self.single.encoder)
        self._parts = _parts(single.episodes)
        self._rules = self._rules_of(single)
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._offsets: list[int] = []  # of the traces of all parts, one after the other
        self._cores = [_served(part.at(0), self._encoder, part).num_cores for part in self._parts]
        self._traces = [(number, trace) for number, part in enumerate(self._parts) for trace in range(len(part.traces))]
        self._problems: dict[int, BatchCluster] = {}  # unless episodes are cut from traces
        self._state = self._prepare()
        self._arrays: Arrays = {
            name: np.zeros((num_envs, *space.shape), space.dtype)
            for name, space in self._encoder.observation_space.items()
            if isinstance(space, gymnasium.spaces.Box)
        }
        self._outcomes = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)

    def _rules_of(self, single: BatchEnv) -> Rules:
        """Return what all episodes have in common."""
        reward, traces = single.reward, self._parts[0] if self._parts else None
        rules = self._steps.Rules(
            scale=0.0,
            power=1.0,
            weights=(0.0, 0.0, 0.0),
            units=(0.0, 0.0),
            skips_forced=single.skip_forced,
            awaits=isinstance(reward, WaitingCost),
            reserve_after=float(self._encoder.reserve_after),
            serial=traces is not None and traces.at(0).cycle == "arrival",
            starts=traces.num_jobs if traces is not None and traces.arrivals == "open" else 2**62,
            slots=self._encoder.slots,
        )
        if isinstance(reward, WaitingCost):
            return rules._replace(scale=float(reward.scale), power=float(reward.power))
        if isinstance(reward, ScaledReward):
            rules = rules._replace(units=(float(reward.queue_length), float(reward.waiting_time)))
        idle, queue, wait = map(float, cast(PaperReward, reward).weights)
        return rules._replace(weights=(idle, queue, wait))

    def _prepare(self) -> State:
        """Return the state; jobs of traces are stored once for all episodes."""
        steps, tracked = self._steps, 0
        if isinstance(self._encoder, FlatEncoder):
            tracked = self._encoder.num_cores
        if not self._parts:
            times, cores = np.zeros((0, steps.CORE_LOG + 1)), np.zeros(0, np.int64)
            shape = (self.num_envs, 0, 0, 0, tracked)
        else:
            traces = [_numbers(self._parts[part].traces[trace], self._cores[part]) for part, trace in self._traces]
            self._offsets = [0, *accumulate(len(part) for _, part in traces)]
            times, cores = np.concatenate([part for part, _ in traces]), np.concatenate([part for _, part in traces])
            count = self._parts[0].num_jobs
            longest = max(len(part) for _, part in traces) if self._parts[0].arrivals == "open" else count
            shape = self.num_envs, longest, min(count, max(self._cores)), count, tracked
        state: State = steps.Episodes.of(times, cores, shape)
        return state

    @staticmethod
    def _check(single: BatchEnv) -> None:
        """Raise an error if the compiled loop does not serve an environment."""
        encoder, reward = single.encoder, single.reward
        fault = ""
        if type(encoder) not in (FeatureEncoder, FlatEncoder) or getattr(encoder, "order", "by_core") != "by_core":
            fault = f"observation: got {encoder!r}"
        elif type(reward) not in (WaitingCost, PaperReward, ScaledReward):
            fault = f"reward: got {type(reward).__name__}"
        elif single.until < math.inf:
            fault = f"until: got {single.until!r}"
        if fault:
            raise InvalidConfiguration(
                f"{fault}, which the compiled environment does not serve; try gymnasium.vector.SyncVectorEnv"
            )

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Begin new episodes and return their first observations.

        Parameters
        ----------
        seed : int or sequence of int, optional
            Seed of each environment; of one number, environment i takes ``seed + i``.
        options : dict, optional
            With ``reset_mask``, an array of bool of shape (E,), only these environments begin anew.

        Returns
        -------
        tuple of dict
            Arrays with a leading axis of length E, and ``info``.

        Raises
        ------
        InvalidConfiguration
            If there are not E seeds, or the mask has another shape or type.
        """
        which = np.arange(self.num_envs)
        if options and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"])
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
                raise InvalidConfiguration(
                    f"reset_mask: got {mask.dtype} of shape {mask.shape}, expected bool of shape ({self.num_envs},) "
                    "with at least one True"
                )
            which = mask.nonzero()[0]
        seeds = [seed + number for number in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise InvalidConfiguration(f"seed: got {len(seeds)} seeds, expected one number, or {self.num_envs}")
        self.begin(which, [None if seeds is None else seeds[number] for number in which.tolist()])
        self._observe(which)
        begun = np.zeros(self.num_envs, np.bool_)
        begun[which] = True
        now = np.where(begun, self._state.clock[:, self._steps.NOW], 0.0)
        told = {"time": now, "elapsed": np.zeros(self.num_envs), "invalid": np.zeros(self.num_envs, np.bool_)}
        return self._shown(), _masked(told, begun)

    def begin(self, which: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Begin new episodes in some environments without encoding their observations.

        Parameters
        ----------
        which : array of int
            Numbers of the environments.
        seeds : sequence of int or None
            Seed of each of them; None continues with its generator.
        """
        for number, seed in zip(which.tolist(), seeds, strict=True):
            if seed is not None or self._rngs[number] is None:
                self._rngs[number] = gymnasium.utils.seeding.np_random(seed)[0]
        self._begin(which)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Arrays, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Answer the decision of every environment and advance to the next ones.

        Parameters
        ----------
        actions : array of int, shape (E,)
            A slot of the window, or S to wait, for each environment.

        Returns
        -------
        tuple
            Observations, rewards, whether episodes have terminated or were truncated, and ``info``, with a leading axis
            of length E.

        Raises
        ------
        InvalidConfiguration
            If an action is not an element of the action space, or an episode is over that must be reset first.
        """
        count, num_envs = self._encoder.slots + 1, self.num_envs
        given = np.asarray(actions)
        if given.shape != (num_envs,) or given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= count:
            raise InvalidConfiguration(
                f"actions: got {given.dtype} of shape {given.shape}, expected integers from 0 to {count - 1} of shape "
                f"({num_envs},)"
            )
        over = self._over.copy()
        if self._rngs[0] is None or (self.autoreset_mode is AutoresetMode.DISABLED and over.any()):
            raise InvalidConfiguration("step: an episode is over or has not begun; call reset first")
        rewards, elapsed, possible, ended, truncated = self.advance(given.astype(np.int64, copy=False), ~over)
        steps = self._steps
        decisions = self._state.counts[:, steps.DECISIONS].copy()
        now = self._state.clock[:, steps.NOW].copy()
        told = {"time": now, "elapsed": elapsed, "invalid": ~possible}
        infos: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            over, self._over = self._over, np.zeros(num_envs, np.bool_)
            if over.any():
                last = over.nonzero()[0]
                self._observe(last)
                final = np.full(num_envs, None, object)
                for number in last.tolist():
                    final[number] = {name: array[number].copy() for name, array in self._arrays.items()}
                note = {name: np.where(over, values, 0) for name, values in {**told, "decisions": decisions}.items()}
                infos = {"final_obs": final, "final_info": _masked(note, over)}
                infos |= {f"_{name}": over.copy() for name in infos}
        elif self._over.any():
            infos = _masked({"decisions": np.where(self._over, decisions, 0)}, self._over.copy())
        if over.any():
            self._begin(over.nonzero()[0])
            told = {"time": now, "elapsed": np.where(over, 0.0, elapsed), "invalid": ~possible & ~over}
            now[over] = self._state.clock[over, steps.NOW]
        self._observe(np.arange(num_envs))
        return self._shown(), rewards, ended, truncated, infos | _masked(told, np.ones(num_envs, np.bool_))

    def advance(
        self, actions: NDArray[np.int64], asked: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Answer the decisions of some environments without encoding the next observations.

        Parameters
        ----------
        actions : array of int, shape (E,)
            Elements of the action space.
        asked : array of bool, shape (E,)
            Environments that are stepped; the episodes of others are over, or stay as they are.

        Returns
        -------
        tuple of array, shape (E,)
            Rewards, elapsed seconds, and whether actions were possible and episodes have terminated or were truncated.
        """
        num_envs, steps = self.num_envs, self._steps
        rewards, elapsed, possible = np.zeros(num_envs), np.zeros(num_envs), np.ones(num_envs, np.bool_)
        steps.step(self._state, actions, asked, self._rules, rewards, elapsed, possible, self._outcomes)
        outcomes = self._outcomes
        ended = asked & (outcomes == steps.ENDED)
        cut = (outcomes > steps.ENDED) | (self._state.counts[:, steps.DECISIONS] >= self.single.max_decisions)
        truncated = asked & cut & ~ended
        self._over = ended | truncated
        return rewards, elapsed, possible, ended, truncated

    def observe(self) -> Arrays:
        """Return the observations of all environments: arrays that the next call overwrites."""
        self._observe(np.arange(self.num_envs))
        return self._arrays

    def finished(self, number: int) -> FinishedEpisode:
        """Return the episode of an environment, from which measures can be taken.

        Parameters
        ----------
        number : int
            Number of the environment.
        """
        return FinishedEpisode(self, number)

    def result(self, number: int) -> Result:
        """Return the records of the episode of an environment so far, apart from the cores on which jobs ran.

        Parameters
        ----------
        number : int
            Number of the environment.
        """
        state, steps = self._state, self._steps
        clock, count = state.clock[number], state.counts[number]
        first, end = int(count[steps.FIRST]), float(clock[steps.NOW])
        submitted = state.times[first : count[steps.LAST], steps.SUBMITTED] - clock[steps.ORIGIN]
        arrived = int(count[steps.COMING]) - first
        if clock[steps.ARRIVAL] == end:  # others have arrived while a cycle was open
            arrived = int(np.searchsorted(submitted, end, "right"))
        shown = slice(arrived)
        problem = self._problem(number)
        jobs = Workload.of(problem.jobs)[shown]
        start, is_over = np.full(len(jobs), np.nan), np.zeros(len(jobs), np.bool_)
        started = state.started[number, : count[steps.STARTED]] - first
        start[started] = state.started_at[number, : len(started)]
        is_over[started] = True
        is_over[state.ran[number, : count[steps.RUNNING]] - first] = False
        length = np.where(is_over, np.minimum(jobs["run_time"], jobs["requested_time"]), np.nan)
        statuses = np.where(np.isnan(start), "queued", np.where(is_over, "completed", "running")).astype(object)
        statuses[length < jobs["run_time"]] = "killed"
        of_run = {
            "submission_time": submitted[shown],
            "requested_number_of_resources": jobs["requested_cores"],
            "starting_time": start,
            "execution_time": length,
            "finish_time": start + length,
            "allocated_resources": [None] * len(jobs),
            "status": statuses.tolist(),
            "attempts": (~np.isnan(start)).astype(np.int64),
            "earlier_execution_time": np.zeros(len(jobs)),
            "useful_execution_time": length,
            "arrival_number": np.arange(len(jobs)),
        }
        tables = problem.tables()
        frames = {name: table.to_frame([]).lazy() for name, table in tables.items()}
        frames["jobs"] = tables["jobs"].frame(lambda name: of_run[name] if name in of_run else jobs[name]).lazy()
        status = {steps.ENDED: "complete", steps.STALLED: "stalled"}.get(int(self._outcomes[number]), "truncated")
        return Result(frames, problem.describe() | {"status": status, "end_time": end}, problem.kind)

    def _problem(self, number: int) -> BatchCluster:
        """Return the problem of the episode of an environment."""
        if not self._parts:
            return self._problems[number]
        first = int(self._state.counts[number, self._steps.FIRST])
        place = bisect_right(self._offsets, first) - 1
        part, trace = self._traces[place]
        return self._parts[part].at(first - self._offsets[place], trace)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are possible now, shape (E, S + 1)."""
        return self._arrays[ACTION_MASK].astype(np.bool_)

    def _begin(self, which: NDArray[np.int64]) -> None:
        """Begin new episodes in some environments."""
        left = which
        for _ in range(10):
            for number in left.tolist():
                self._load(number)
            self._steps.begin(self._state, left, self._rules, self._outcomes)
            left = left[self._outcomes[left] != self._steps.DECISION]
            if not len(left):
                self._over[which] = False
                return
        raise DesimError("ten episodes in a row without a decision: their workloads are empty")

    def _load(self, number: int) -> None:
        """Draw the next episode of an environment, as a single environment does."""
        rng = self._rngs[number]
        assert rng is not None
        windows, episodes, steps = self.single.windows, self.single.episodes, self._steps
        window = windows[int(rng.integers(len(windows)))] if len(windows) > 1 else self._encoder.window
        if isinstance(episodes, TraceEpisodes | MixedEpisodes):
            *chosen, start, trace = episodes.draw(rng)
            part = chosen[0] if chosen else 0
            place = self._traces.index((part, trace))
            first = self._offsets[place] + start
            is_open = self._parts[part].arrivals == "open"
            last = self._offsets[place + 1] if is_open else first + self._parts[part].num_jobs
            num_cores = self._cores[part]
        else:
            self._problems[number] = problem = _served(episodes(rng), self._encoder)
            times, cores = _numbers(problem.jobs, problem.num_cores)
            num_cores = problem.num_cores
            first = self._store(number, times, cores, num_cores)
            last = first + len(cores)
        rng.integers(2**63)  # a single environment draws the seed of its simulation
        state = self._state
        state.clock[number, steps.ORIGIN] = state.times[first, steps.SUBMITTED] if self._offsets else 0.0
        count = state.counts[number]
        count[steps.TOTAL], count[steps.FIRST], count[steps.COMING] = num_cores, first, first
        count[steps.LAST] = last
        count[steps.HEAD], count[steps.SIZE] = window.head, window.size

    def _store(self, number: int, times: NDArray[np.float64], cores: NDArray[np.int64], num_cores: int) -> int:
        """Store the jobs of an episode of one environment, which has a part of the arrays, and return their begin."""
        old, num_envs = self._state, self.num_envs
        length: int = old.queue.shape[1]
        running: int = old.held.shape[1]
        if len(cores) > length or min(len(cores), num_cores) > running:
            longer, more = max(len(cores), length), max(min(len(cores), num_cores), running)
            parts = np.zeros((num_envs, longer, old.times.shape[1])), np.ones((num_envs, longer), np.int64)
            for part, before in zip(parts, (old.times, old.cores), strict=True):
                part[:, :length] = before.reshape(num_envs, length, *part.shape[2:])
            flat = parts[0].reshape(-1, old.times.shape[1]), parts[1].ravel()
            tracked = old.users.shape[1]
            self._state = self._steps.Episodes.of(*flat, (num_envs, longer, more, longer, tracked))
            for array, before in zip(self._state[2:-2], old[2:-2], strict=True):
                array[:, : before.shape[1]] = before
            moved = np.arange(num_envs)[:, None] * (longer - length)  # jobs have other numbers now
            self._state.queue[:] += moved
            self._state.ran[:] += moved
            self._state.started[:] += moved
            self._state.users[:] += np.where(self._state.users < 0, 0, moved)
            self._state.counts[:, [self._steps.COMING, self._steps.LAST, self._steps.FIRST]] += moved
            length = longer
        first = number * length
        place = slice(first, first + len(cores))
        self._state.times[place], self._state.cores[place] = times, cores
        self._steps.take_logs(self._state.times[place], self._state.cores[place])
        return first

    def _observe(self, which: NDArray[np.int64]) -> None:
        """Encode the observations of some environments."""
        arrays, encoder = self._arrays, self._encoder
        if isinstance(encoder, FlatEncoder):
            longest = encoder.longest_time, encoder.longest_wait
            self._steps.observe_flat(self._state, which, arrays["jobs"], arrays["cores"], arrays[ACTION_MASK], *longest)
        else:
            shown = arrays["jobs"], arrays["cluster"], arrays[ACTION_MASK]
            self._steps.observe(self._state, which, self._rules, *shown)

    def _shown(self) -> Arrays:
        return {name: array.copy() for name, array in self._arrays.items()}


class FinishedEpisode(NamedTuple):
    """Episode of an environment at its end; like an environment, it is ``unwrapped`` and has a ``result()``.

    Attributes
    ----------
    envs : BatchVectorEnv
        Environments.
    number : int
        Number of the environment.
    """

    envs: BatchVectorEnv
    number: int

    @property
    def unwrapped(self) -> Self:
        """The episode itself."""
        return self

    def result(self) -> Result:
        """Return the records of the episode, see :meth:`BatchVectorEnv.result`."""
        return self.envs.result(self.number)


def _parts(episodes: Episodes) -> tuple[TraceEpisodes, ...]:
    """Return the generators that cut episodes from traces; none if a function makes the problems."""
    if isinstance(episodes, TraceEpisodes):
        return (episodes,)
    parts = episodes.parts if isinstance(episodes, MixedEpisodes) else ()
    kinds = sorted({f"{part.num_jobs} jobs, {part.arrivals}, cycle {part.at(0).cycle}" for part in parts})
    if len(kinds) > 1:
        raise InvalidConfiguration(f"episodes: got {' and '.join(kinds)}, expected parts that differ in cores only")
    return parts


def _served(problem: Problem, encoder: WindowEncoder, traces: TraceEpisodes | None = None) -> BatchCluster:
    """Return the problem of an episode, or raise an error if the compiled loop does not serve it."""
    plain = BatchCluster((), 1).describe()
    is_open = traces is not None and traces.arrivals == "open"  # a process of desim ends such an episode
    if type(problem) is not BatchCluster:
        fault = f"a {type(problem).__name__}"
    elif len(problem.processes) > is_open:
        fault = "processes"
    elif isinstance(encoder, FlatEncoder) and problem.num_cores != encoder.num_cores:
        fault = f"{problem.num_cores} cores, but the observation of {encoder.num_cores}"
    else:
        given = problem.describe()
        free = {"num_cores", "job_ids", "attributes", "infeasible", "too_wide", "on_outage"}
        if traces is not None and problem.cycle in ("instant", "arrival"):
            free |= {"cycle"}
        fault = next((f"{n} {v!r}" for n, v in given.items() if n not in free and plain.get(n) != v), "")
    if fault:
        raise InvalidConfiguration(
            f"episodes: got a problem with {fault}, which the compiled environment does not serve; try "
            "gymnasium.vector.SyncVectorEnv"
        )
    return cast(BatchCluster, problem)


def _numbers(jobs: Iterable[Job], num_cores: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return submission times, requested times and durations of jobs, shape (J, 5), and their cores, shape (J,)."""
    names = ("submission_time", "requested_time", "run_time", "requested_cores")
    if isinstance(jobs, Workload):
        columns, requests = [jobs[name] for name in names], "request" in jobs.columns
    else:
        jobs = list(jobs)
        columns = [np.array([getattr(job, name) for job in jobs]) for name in names]
        requests = any(job.request is not None for job in jobs)
    submitted, requested, lengths, cores = columns
    if requests or (cores > num_cores).any():
        asked, wide = "nodes", 0
        if not requests:
            wide = int(cores.argmax())
            asked = f"{cores[wide]} cores"
        raise WorkloadError(f"job {jobs[wide].job_id} requests {asked}, but the cluster has {num_cores} cores")
    for late in np.flatnonzero(np.diff(submitted) < 0).tolist():
        raise WorkloadError(f"job {jobs[late + 1].job_id} is submitted before its predecessor")
    times = np.zeros((len(cores), 5))
    times[:, :3] = np.array([submitted, requested, np.minimum(lengths, requested)]).T
    return times, cores.astype(np.int64)


def _masked(infos: dict[str, Any], which: NDArray[np.bool_]) -> dict[str, Any]:
    """Return entries of ``info`` with a mask of the environments that have them, as Gymnasium does."""
    return infos | {f"_{name}": which for name in infos}
