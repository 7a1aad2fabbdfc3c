"""What desim calls its things: clusters, agents and runs, made of plain values. When a name changes, change it here."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Generator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import desim.envs
from desim import Result, Simulation, simulate
from desim.agents.batch.registry import create as create_batch
from desim.agents.dag.registry import create as create_dag
from desim.agents.deferrable import CapacityShield, LastValue, Seasonal
from desim.agents.deferrable.registry import create as create_deferrable
from desim.agents.multiserver.gang import GangRepair
from desim.agents.multiserver.registry import create as create_multiserver
from desim.core import Phase, at
from desim.problems import batch, dag
from desim.problems import deferrable as slots
from desim.problems import multiserver as graphs
from desim.processes import (
    Outage,
    Pattern,
    job_stream,
    mean_reverting_capacity,
    on_demand_vms,
    planned_outages,
    random_outages,
    replayed_capacity,
    replayed_vms,
    stepped_capacity,
    stop_after,
)
from desim.workloads import arrivals, deferrable, lublin, multiserver, random_dags, submissions, tpch

__all__ = ["end_of", "play", "run"]

desim.envs.register()

CREATE: dict[str, Callable[[str], Any]] = {
    "batch": create_batch,
    "dag": create_dag,
    "deferrable": create_deferrable,
    "multiserver": create_multiserver,
}


def run(problem: str, scenario: dict[str, Any], directory: Path) -> Result:
    """Simulate a scenario: in memory, streamed to a directory, saved to it and loaded, or in a fork."""
    cluster, agent = BUILD[problem](scenario["system"], scenario["workload"]), _agent(problem, scenario)
    options = {"seed": scenario["seed"], "until": scenario["until"]}
    if scenario["mode"] == "forked":
        return _forked(cluster, agent, scenario["after"], **options)
    if scenario["mode"] == "streamed":
        return simulate(cluster, agent, out=directory / "run", **options)
    result = simulate(cluster, agent, **options)
    return Result.load(result.save(directory / "run")) if scenario["mode"] == "saved" else result


def _forked(cluster: Any, agent: Any, after: int, **options: Any) -> Result:
    """Fork after some decisions, and let the agent go on in the fork."""
    simulation = Simulation(cluster, **options)
    if hasattr(agent, "reset"):
        agent.reset(simulation.problem.describe(), simulation.stream("agent"))
    count = 0
    while (decision := simulation.advance()) is not None:
        if count == after:
            simulation = simulation.fork()
            decision = simulation.advance()
            assert decision is not None
        decision.answer(agent.act(decision.observation))
        count += 1
    return simulation.finish(agent=getattr(agent, "name", type(agent).__name__))


def end_of(result: Result) -> dict[str, Any]:
    """Return how and when a run ended."""
    return {"status": result.info["status"], "end_time": float(result.info["end_time"])}


def play(scenario: dict[str, Any]) -> dict[str, np.ndarray]:
    """Run an episode of an environment with any possible actions, and return what was seen and earned, step by step."""
    gym_env: Any = gymnasium.make(scenario["id"], **scenario["settings"]).unwrapped
    rng = np.random.default_rng(scenario["seed"])
    seen, _ = gym_env.reset(seed=scenario["seed"])
    steps: list[dict[str, Any]] = [{f"observation.{name}": value for name, value in seen.items()}]
    over = False
    while not over:
        if isinstance(gym_env.action_space, gymnasium.spaces.Discrete):
            action = int(rng.choice(np.flatnonzero(gym_env.action_masks())))
        else:
            action = rng.uniform(-1, 1, gym_env.action_space.shape).astype(np.float32)
        seen, reward, terminated, truncated, info = gym_env.step(action)
        over = terminated or truncated
        step = {
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "elapsed": info.get("elapsed", -1.0),
        }
        steps.append({f"observation.{name}": value for name, value in seen.items()})
        steps[-1] |= {f"step.{name}": value for name, value in step.items()}
    return {name: np.array([step[name] for step in steps if name in step]) for name in steps[-1]}


# agents


def _agent(problem: str, scenario: dict[str, Any]) -> Any:
    name = scenario["agent"]
    if name == "anything":
        return ANYTHING[problem]()
    if name == "gang-anything":
        return GangRepair(_AnyMultiServer())
    agent = copy.copy(_loaded(problem, name)) if ":" in name else CREATE[problem](name)
    for option, value in scenario["options"].items():
        if option == "shield":
            base = Seasonal(value["period"]) if value["period"] else LastValue()
            agent.forecast = CapacityShield(base, np.array(value["margins"]), 0.1)
        else:
            setattr(agent, option, value)
    return agent


@cache
def _loaded(problem: str, name: str) -> Any:
    return CREATE[problem](name)


class _Anything:
    """Answers whatever is allowed, sensible or not."""

    name = "anything"

    def reset(self, info: dict[str, Any], rng: np.random.Generator) -> None:
        self.info = info
        self.rng = rng


class _AnyBatch(_Anything):
    """Start jobs on any free cores, one or several, wait, or wait until; nonsense where that only ends the cycle."""

    def act(self, observation: Any) -> Any:
        rng, queue = self.rng, observation.queue
        fitting = [int(job_id) for job_id in queue.job_id[queue.requested_cores <= observation.free_cores]]
        if self.info["infeasible"] == "forward" and len(observation.running) and rng.random() < 0.2:
            return [-(10**6), "no job", batch.Start(int(queue.job_id[0]), 0) if len(queue) else None][rng.integers(3)]
        if not fitting or (len(observation.running) and rng.random() < 0.25):
            later = observation.time + float(rng.exponential(5.0)) + 1e-3 * max(observation.time, 1e-3)
            return batch.WaitUntil(later) if len(queue) and rng.random() < 0.3 else None
        job_id = fitting[rng.integers(len(fitting))]
        count = int(queue.requested_cores[list(queue.job_id).index(job_id)])
        answer = batch.Start(job_id, self.cores(observation.free_core_set, count)) if rng.random() < 0.5 else job_id
        return [answer] if rng.random() < 0.3 else answer

    def cores(self, free: int, count: int) -> int:
        there = [core for core in range(free.bit_length()) if free >> core & 1]
        return sum(1 << there[place] for place in self.rng.permutation(len(there))[:count].tolist())


class _AnyDag(_Anything):
    """Assign any executable node to any executor, some with duplicates, some twice; tasks in any number."""

    def act(self, observation: Any) -> Any:
        rng = self.rng
        up = np.flatnonzero(observation.available_times < math.inf)
        busy = any(len(table.waiting) for table in observation.timetables.values())
        if not len(up) or (busy and rng.random() < 0.2):
            return None
        choices = list(observation.executable.values())
        state, node = choices[rng.integers(len(choices))]
        executor, job_id = int(rng.choice(up)), state.job.job_id
        if self.info["granularity"] == "task":
            return [dag.Assign(job_id, node, executor)] * int(rng.integers(1, state.unassigned_tasks[node] + 1))
        parents = state.job.parent_lists
        known = [
            other
            for other in range(state.job.num_nodes)
            if state.copies[other] and all(state.copies[parent] for parent, _ in parents[other])
        ]
        there = all(state.copies[parent] for parent, _ in parents[node])
        before = rng.permutation(known)[: rng.integers(0, 3)].tolist() if there else []
        answer = dag.Assign(job_id, node, executor, tuple(map(int, before)))
        if known and rng.random() < 0.2:
            return [answer, dag.Assign(job_id, int(rng.choice(known)), int(rng.choice(up)))]
        return answer


class _AnyDeferrable(_Anything):
    """Start any jobs in any order, beyond the capacity too if that is allowed."""

    def act(self, observation: Any) -> Any:
        rng, count = self.rng, len(observation.current)
        if rng.random() < 0.1:
            return None
        chosen = rng.permutation(count)[rng.random(count) < 0.7].tolist()
        if self.info["overcommit"] and rng.random() < 0.3:
            return chosen
        used, fitting = observation.used.copy(), []
        for position in chosen:
            request = observation.current.requests[position]
            if not ((used + request > observation.limit) & (request > 0)).any():
                used = used + request
                fitting.append(position)
        return fitting


class _AnyMultiServer(_Anything):
    """Give any share of what a node has to any of its ports, with or without jobs."""

    def act(self, observation: Any) -> Any:
        rng, graph = self.rng, observation.graph
        if rng.random() < 0.1:
            return None
        wanted = rng.random(graph.shape) * (rng.random(graph.shape) < 0.7) * graph.requests[graph.channel_port]
        total = graph.node_sums(wanted)
        share = np.divide(observation.capacity, total, out=np.ones_like(total), where=total > observation.capacity)
        return wanted * share[graph.channel_node]


ANYTHING: dict[str, Callable[[], Any]] = {
    "batch": _AnyBatch,
    "dag": _AnyDag,
    "deferrable": _AnyDeferrable,
    "multiserver": _AnyMultiServer,
}


# what the problems share


def _processes(system: dict[str, Any], jobs: list[Any], own: list[int]) -> list[Any]:
    """Return outages, an early end, and a process that submits jobs of its own; their settings are taken out."""
    processes = []
    outages, stop = system.pop("outages", None), system.pop("stop_after", None)
    if outages is not None and outages["kind"] == "planned":
        processes.append(planned_outages([Outage(*outage) for outage in outages["outages"]]))
    elif outages is not None:
        processes.append(random_outages(**_without_kind(outages)))
    if stop is not None:
        event, count = stop
        processes.append(stop_after({"submission": "arrival"}.get(event, event), count))
    if own:
        processes.append(_submitting([(jobs[place].submission_time, jobs[place]) for place in own]))
    return processes


def _submitting(submissions: list[tuple[float, Any]]) -> Callable[[Any], Any]:
    def process(cluster: Any) -> Generator[Any, Any, None]:
        for time, subject in submissions:
            if time > cluster.env.now:
                yield at(cluster.env, time, Phase.ARRIVAL)
            cluster.submit(subject)

    return process


def _stream(jobs: list[Any], workload: dict[str, Any]) -> Any:
    stream = [job for place, job in enumerate(jobs) if place not in workload.get("own", [])]
    return iter(stream) if workload.get("iterator") else stream


def _without_kind(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "kind"}


# batch


def _batch(system: dict[str, Any], workload: dict[str, Any]) -> Any:
    system = dict(system)
    jobs = _batch_jobs(workload)
    processes = _processes(system, jobs, workload.get("own", []))
    return batch.BatchCluster(_stream(jobs, workload), processes=processes, **system)


def _batch_jobs(workload: dict[str, Any]) -> list[Any]:
    options = _without_kind(workload)
    if workload["kind"] == "lublin":
        return list(lublin.generate(**options))
    if workload["kind"] == "poisson":
        mean = options.pop("service")
        service = arrivals.exponential(mean) if mean else arrivals.constant(0.0)
        return list(arrivals.poisson_jobs(service=service, **options))
    kinds: tuple[Any, ...] = (np.int64, np.float64, np.int64, np.float64, np.float64, np.int64)
    if workload["numpy"]:
        return [batch.Job(*(kind(value) for kind, value in zip(kinds, row, strict=True))) for row in workload["rows"]]
    return [batch.Job(*row) for row in workload["rows"]]


# DAG


def _dag(system: dict[str, Any], workload: dict[str, Any]) -> Any:
    system = dict(system)
    executors = dag.Executors(**system.pop("executors"))
    jobs = _dag_jobs(workload)
    processes = _processes(system, jobs, workload.get("own", []))
    if system.pop("granularity") == "task":
        return dag.TaskCluster(_stream(jobs, workload), executors, processes=processes, **system)
    links = _links(system.pop("links", None))
    return dag.DagCluster(_stream(jobs, workload), executors, links=links, processes=processes, **system)


def _links(links: dict[str, Any] | None) -> Any:
    if links is None:
        return None
    kind = dag.SharedLinks if links["kind"] == "routes" else getattr(dag.SharedLinks, links["kind"])
    return kind(**_without_kind(links))


def _dag_jobs(workload: dict[str, Any]) -> list[Any]:
    options = _without_kind(workload)
    if workload["kind"] == "rows":
        return [_dag_job(**row) for row in workload["jobs"]]
    seed, interval, num_jobs = options.pop("seed"), options.pop("interval"), options.pop("num_jobs")
    if workload["kind"] == "tpch":
        jobs = tpch.generate(num_jobs, seed=seed, **options)
    elif workload["kind"] == "layers":
        jobs = [random_dags.generate(job_id=number, seed=seed + number, **options) for number in range(num_jobs)]
    else:
        make = PROGRAMS[options.pop("shape")]
        jobs = [make(job_id=number, **options) for number in range(num_jobs)]
    return list(submissions.poisson(jobs, interval, seed) if interval else submissions.batch(jobs))


PROGRAMS: dict[str, Any] = {
    "chain": partial(random_dags.chain, 20),
    "fork_join": partial(random_dags.fork_join, 5, stages=2),
    "gaussian_elimination": partial(random_dags.gaussian_elimination, 5),
    "fft": partial(random_dags.fft, 4),
    "out_tree": partial(random_dags.out_tree, 4),
    "in_tree": partial(random_dags.in_tree, 4),
}


def _dag_job(**row: Any) -> Any:
    times = row.pop("task_times", None)
    edges = [tuple(edge) for edge in row.pop("edges")]
    return dag.Job(**row, edges=edges, task_times=None if times is None else [dag.TaskTimes(**one) for one in times])


# deferrable


def _deferrable(system: dict[str, Any], workload: dict[str, Any]) -> Any:
    system = dict(system)
    if workload["kind"] == "generated":
        options = {name: value for name, value in _without_kind(workload).items() if name != "seed"}
        made = deferrable.generate(deferrable.Settings(**options), seed=workload["seed"])
        jobs, capacity = list(made.jobs), made.capacity
        del system["capacity"]
    else:
        rows: list[Any] = [(*row[:-1], tuple(row[-1])) for row in workload["rows"]]
        jobs = [slots.Job(*row) for row in rows]
        jobs = [_in_numpy(job) for job in jobs] if workload["numpy"] else jobs
        capacity = _capacity(system.pop("capacity"))
    processes = _processes(system, jobs, workload.get("own", []))
    return slots.DeferrableCluster(_stream(jobs, workload), capacity, processes=processes, **system)


def _in_numpy(job: Any) -> Any:
    whole = {name: np.int64(getattr(job, name)) for name in ("job_id", "earliest_start", "latest_start", "duration")}
    return job._replace(**whole, submission_time=np.float64(job.submission_time), cores=np.float64(job.cores))


class VM(NamedTuple):
    """A recorded on-demand VM."""

    start: float
    end: float
    cores: float
    memory: float = 0.0
    disk: float = 0.0


def _capacity(capacity: dict[str, Any]) -> Any:
    options, kind = _without_kind(capacity), capacity["kind"]
    if kind in ("series", "repeated"):
        return options["table"] if kind == "series" else replayed_capacity(options["table"], repeat=True)
    if kind == "steps":
        return stepped_capacity([tuple(step) for step in options["steps"]])
    if kind == "noise":
        swing = {"amplitude": options.pop("amplitude"), "day_length": 8}
        return mean_reverting_capacity([Pattern(mean, **swing) for mean in options.pop("level")], **options)
    if kind == "vms":
        return replayed_vms(options["total"], [VM(start, end, *amounts) for start, end, amounts in options["vms"]])
    total, rate, lifetime = (options.pop(name) for name in ("total", "arrivals", "lifetime"))
    return on_demand_vms(total, rate, lifetime, **options)


# multiserver


def _multiserver(system: dict[str, Any], workload: dict[str, Any]) -> Any:
    system = dict(system)
    rewards, gang = _rewards(system.pop("rewards")), system.pop("gang", None)
    submitted, holding = system.pop("submitted"), system.pop("holding", None)
    processes = _submissions(submitted) + _processes(system, [], [])
    options = {"gang": None if gang is None else graphs.Gang(**gang), "processes": processes, **system}
    rows = _arrivals(workload)
    stream = iter(rows) if workload.get("iterator") else rows
    if holding is None:
        return graphs.MultiServerCluster(rewards, stream, **options)
    return graphs.HoldingCluster(rewards, stream, **(holding | {"work": _work(holding["work"])}), **options)


def _rewards(rewards: dict[str, Any]) -> Any:
    options = _without_kind(rewards)
    if rewards["kind"] == "generated":
        return multiserver.generate(**options)
    channels = options.pop("channels")
    pairs = None if channels is None else [tuple(pair) for pair in channels]
    graph = graphs.BipartiteGraph(options.pop("requests"), options.pop("capacity"), pairs)
    return graphs.RewardModel(graph, **options)


def _arrivals(workload: dict[str, Any]) -> Any:
    options = _without_kind(workload)
    if workload["kind"] == "bernoulli":
        return multiserver.bernoulli_arrivals(**options)
    if workload["kind"] == "periodic":
        return multiserver.periodic_arrivals(**options)
    return np.array(workload["rows"], dtype=np.int64).reshape(-1, workload["ports"])


def _submissions(submitted: dict[str, Any] | None) -> list[Any]:
    if submitted is None:
        return []
    if submitted["kind"] == "stream":
        return [job_stream(**_without_kind(submitted))]

    def process(cluster: Any) -> Any:
        for time, port in submitted["jobs"]:
            yield at(cluster.env, time, Phase.ARRIVAL)
            cluster.submit(port)

    return [process]


def _work(work: Any) -> Any:
    if not isinstance(work, dict):
        return work
    low, high = min(work.values()), max(work.values())
    return lambda rng, port: float(rng.uniform(low, high)) + 0.01 * (port + 1)


BUILD: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "batch": _batch,
    "dag": _dag,
    "deferrable": _deferrable,
    "multiserver": _multiserver,
}
