"""Simulation of one run: pods arrive in random order at an empty cluster until 1.3 times its GPUs are requested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desim import simulate
from desim.exceptions import InvalidConfiguration
from desim.experiments.frame import Choice
from desim.experiments.openb.policies import POLICIES
from desim.experiments.study import is_valid
from desim.problems.batch import (
    GPU,
    BatchCluster,
    BatchObservation,
    Fragmentation,
    Job,
    Node,
    NodeAvailability,
    NodeTable,
    Request,
    typical_requests,
)
from desim.sweep import Run
from desim.workloads.batch.openb import CPU, Pod, read_nodes, read_pods

REQUESTED = 130
"""Percent of the cluster's GPUs that are requested in a run."""
MADE = "made-up"
FOREVER = 1e9
#: Percent requested from which on unused GPUs are reported.
FILLED = 80


@dataclass(frozen=True)
class Setting:
    """Workload and size of the cluster.

    Attributes
    ----------
    workload : str
        Name of a workload of the trace, or :data:`MADE`.
    data : str
        Directory of the trace; empty for a synthetic workload.
    num_nodes : int
        Approximate number of nodes, evenly spaced in the list, with at least one per GPU model; 0 for all.
    check : bool
        Whether to check the records with `desim.validation`.
    """

    workload: str = "default"
    data: str = ""
    num_nodes: int = 0
    check: bool = False


def made(num_nodes: int, rng: np.random.Generator) -> tuple[list[Node], list[Pod]]:
    """Return synthetic nodes and pods of the same kinds as in the trace.

    Parameters
    ----------
    num_nodes : int
        Number of nodes; half have eight GPUs, the others two or four.
    rng : numpy.random.Generator
        Source of randomness for the pods.

    Returns
    -------
    tuple of list of Node and list of Pod
        Nodes, and pods that request nearly all GPUs.
    """
    sizes = [(96, 8, "big"), (64, 4, "middle"), (96, 8, "big"), (32, 2, "small")]
    nodes = [
        Node(f"n{n}", cpus, memory=cpus << 32, gpus=gpus, gpu_model=model, resources={CPU: cpus * 1000})
        for n in range(num_nodes)
        for cpus, gpus, model in (sizes[n % 4],)
    ]
    pods: list[Pod] = []
    requested, total = 0.0, sum(node.gpus for node in nodes)
    while requested < 0.98 * total:
        gpus = float(rng.choice([0, 0.25, 0.5, 0.8, 1, 2, 4, 8], p=[0.13, 0.1, 0.15, 0.15, 0.4, 0.03, 0.02, 0.02]))
        cpus = int(rng.choice([2_000, 4_000, 8_000, 11_000])) * max(1, int(gpus))
        models = ("big",) if gpus and rng.random() < 0.1 else ()
        request = Request(memory=cpus << 21, gpus=gpus, gpu_models=models, resources=((CPU, cpus),))
        pods.append(Pod(f"p{len(pods):05}", request))
        requested += gpus
    return nodes, pods


@lru_cache(maxsize=8)
def _load(setting: Setting) -> tuple[list[Node], list[Pod], list[tuple[Request, int]]]:
    """Return the nodes, pods and typical requests of a workload."""
    if setting.workload == MADE:
        nodes, pods = made(setting.num_nodes or 60, np.random.default_rng(0))
    else:
        trace = Path(setting.data) / "alibaba"
        nodes = read_nodes(trace / "openb_node_list_gpu_node.csv")
        of_trace = trace / "openb_pod_list_default.csv"
        derived = Path(setting.data) / "gpu" / "openb" / f"openb_pod_list_{setting.workload}.csv"
        pods = read_pods(of_trace if setting.workload == "default" else derived)
        if setting.num_nodes:
            nodes = thinned(nodes, max(1, len(nodes) // setting.num_nodes))
    return nodes, sorted(pods), typical_requests(pod.request for pod in pods)


def thinned(nodes: Sequence[Node], step: int) -> list[Node]:
    """Return every `step`-th node of each GPU model, so that every model that pods request is kept."""
    by_model: dict[str, list[Node]] = {}
    for node in nodes:
        by_model.setdefault(node.gpu_model, []).append(node)
    kept = {id(node) for group in by_model.values() for node in group[::step]}
    return [node for node in nodes if id(node) in kept]


def ordered(pods: Sequence[Pod], total: float, rng: np.random.Generator) -> list[Request]:
    """Return the requests of pods in random order, repeated or left out until they are 1.3 times the cluster's GPUs.

    Parameters
    ----------
    pods : sequence of Pod
        Pods of a workload.
    total : float
        Number of GPUs of the cluster.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    list of Request
        Requests in order of arrival.
    """
    requests = [pods[number].request for number in rng.permutation(len(pods)).tolist()]
    requested, target = sum(request.gpus for request in requests), REQUESTED / 100 * total
    while requested > target:
        requested -= requests.pop(int(rng.integers(len(requests)))).gpus
    while True:
        drawn = pods[int(rng.integers(len(pods)))].request
        if requested + min(drawn.gpus, 1.0) > target:  # a pod with several GPUs counts as one here, as in the artifact
            return requests
        requests.append(drawn)
        requested += drawn.gpus


class Newest:
    """Agent that tries the newest pod once, and records the fragmentation at every percent requested.

    Parameters
    ----------
    requests : sequence of Request
        Requests of all pods.
    fragmentation : Fragmentation
        Measure of fragmentation.
    total : float
        Number of GPUs of the cluster.
    """

    name = "newest"

    def __init__(self, requests: Sequence[Request], fragmentation: Fragmentation, total: float) -> None:
        percent = np.cumsum([request.gpus for request in requests]) * (100.0 / total)
        self._marks = dict(zip(np.rint(percent).astype(int).tolist(), range(len(requests)), strict=True))
        self._when = {arrival: mark for mark, arrival in self._marks.items()}
        self.fragmentation = fragmentation
        self.curve: dict[int, float] = {}

    def act(self, observation: BatchObservation) -> int | None:
        """Return the newest pod; it is asked only once per pod, since an infeasible answer ends the decision cycle."""
        newest = int(observation.queue.row[-1])
        if newest in self._when:
            assert observation.nodes is not None
            self._note(self._when[newest], observation.nodes.room)
        return newest

    def _note(self, mark: int, room: NodeAvailability) -> None:
        free = room.gpus.sum()
        self.curve[mark] = float(self.fragmentation.of_room(room).sum() / free) if free else 0.0


def perform(run: Run) -> dict[str, Any]:
    """Simulate a run of the placement experiment.

    Parameters
    ----------
    run : Run
        Run of a :class:`Setting` and a :class:`Choice`.

    Returns
    -------
    dict
        ``allocated_at_100`` and ``allocated_at_130``, percent of the GPUs in use when this percentage has been
        requested; number of ``dropped`` pods; ``valid``, None if unchecked. Curves over percent requested:
        ``fragmented``, percent of the free GPUs that typical pods cannot use, and ``unused``, percent of all GPUs that
        are requested and exist, but are not in use, from 80 percent on.

    Raises
    ------
    InvalidConfiguration
        If there is no such policy.
    """
    setting: Setting = run.setting
    choice: Choice = run.agent
    if choice.policy not in POLICIES:
        raise InvalidConfiguration(f"policy: got {choice.policy!r}, expected one of {', '.join(POLICIES)}")
    nodes, pods, typical = _load(setting)
    total = float(sum(node.gpus for node in nodes))
    orders, ranks, draws = np.random.default_rng(run.seed).spawn(3)
    requests = ordered(pods, total, orders)
    nodes = [nodes[number] for number in ranks.permutation(len(nodes)).tolist()]  # ties go to the first node
    table = NodeTable(nodes)
    jobs = [Job.of_tasks(n, float(n), request, FOREVER, FOREVER) for n, request in enumerate(requests)]
    agent = Newest(requests, Fragmentation(typical, table, CPU), total)
    policy = POLICIES[choice.policy](typical, draws)
    cluster = BatchCluster(jobs, nodes=table, placement=policy, infeasible="forward", too_wide="reject")
    result = simulate(cluster, agent, until=float(len(jobs)))
    placed = result.jobs.sort("arrival_number")["starting_time"].is_not_null().to_numpy()
    allocated = allocation(np.array([request.gpus for request in requests]), placed, total)
    return {
        "allocated_at_100": allocated[100],
        "allocated_at_130": [value for value in allocated if value is not None][-1],  # few pods can leave gaps
        "num_pods": len(jobs),
        "dropped": int((~placed).sum()),
        "valid": is_valid(result, jobs, check=setting.check),
        "by percent requested": {
            "fragmented": {mark: 100.0 * agent.curve[mark] for mark in range(REQUESTED + 1) if mark in agent.curve},
            "unused": {
                mark: min(mark, 100) - value
                for mark, value in enumerate(allocated)
                if value is not None and mark >= FILLED
            },
        },
    }


def allocation(gpus: NDArray[np.float64], placed: NDArray[np.bool_], total: float) -> list[float | None]:
    """Return the GPUs in use at each percent requested, in percent, rounded twice as in the publication.

    Parameters
    ----------
    gpus : array of float, shape (n,)
        GPUs requested by each pod, in order of arrival.
    placed : array of bool, shape (n,)
        Whether each pod was placed.
    total : float
        Number of GPUs of the cluster.

    Returns
    -------
    list of float or None
        Values for 0 to 130 percent; None if no arrival rounds to a percentage.
    """
    thousandths = np.rint(gpus * GPU)
    percent = np.rint(100.0 * thousandths.cumsum() / (total * GPU)).astype(int)
    used = np.round(100.0 * (thousandths * placed).cumsum() / (total * GPU), 2)
    means = (used[percent == mark] for mark in range(REQUESTED + 1))
    return [round(float(values.mean()), 2) if len(values) else None for values in means]
