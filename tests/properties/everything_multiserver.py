"""Random systems of ports and nodes with multi-server jobs that last one slot, or hold what they get."""

from __future__ import annotations

from typing import Any

import numpy as np
from everything_draws import Drawn, Draws, processes_of, without_kind

from desim.core import Phase, at
from desim.problems.multiserver import (
    UTILITIES,
    BipartiteGraph,
    Gang,
    MultiServerCluster,
    MultiSlotCluster,
    RewardModel,
)
from desim.processes import job_stream
from desim.workloads import multiserver

__all__ = ["build", "draw", "submitted"]


def draw(draws: Draws, agent: str) -> Drawn:
    """Draw a system and arrivals, as plain values; agents whose answers are repaired for gangs get gangs."""
    holding, odd = draws.chance(0.45), draws.chance(0.3)
    rewards = draw_rewards(draws, odd=odd)
    ports, resources = sizes_of(rewards)
    slots = draws.pick((0, 1, 3, 8, 8, 15, 15, 25, 25, 25))
    submits = slots > 0 and draws.chance(0.2)
    copies = draws.pick((2, 3) if submits else (1, 1, 2, 3))
    most = copies - 1 if submits and not holding else copies  # what a process submits needs a place, too
    if holding:
        most = draws.pick((1, copies, 4))
    workload: dict[str, Any] = draw_arrivals(draws, slots, ports, most)
    system: dict[str, Any] = {
        "rewards": rewards,
        "jobs_per_port": copies,
        "record_allocations": draws.pick((1, 1, 1, 3, 0)),
        "submitted": draw_submissions(draws, slots, ports, holding=holding) if submits else None,
    }
    if agent.startswith("gang-"):
        system["gang"] = draw_gang(draws, ports, resources)
    if holding:
        system["holding"] = draw_holding(draws, ports, odd=odd)
    if draws.chance(0.1):
        event = draws.pick(("arrival", "slot", "start", "completion") if holding else ("arrival", "slot"))
        system["stop_after"] = [event, draws.whole(1, 10)]
    until = draws.end([float(slot) for slot in range(1, slots + 5)])
    return Drawn(system, workload, agent, {}, until)


def draw_rewards(draws: Draws, *, odd: bool) -> dict[str, Any]:
    """Draw a graph, and what it earns; odd ones have ports and nodes that are cut off, or overheads above all gains."""
    if draws.chance(0.2):
        law = {"contention": draws.pick((0.5, 10.0)), "density": draws.pick((None, 2.0))}
        numbers = {"num_ports": draws.whole(1, 5), "num_nodes": draws.whole(5, 10), "seed": draws.seed()}
        return {"kind": "generated", **numbers, **law}
    kind = draws.pick(("whole", "quarters", "thirds", "any", "mixed"))
    ports, nodes, resources = draws.whole(1, 7), draws.whole(1, 6), draws.whole(1, 3)
    empty, joined = (
        draws.pick((0.0, 0.1, 0.3) if odd else (0.0, 0.1)),
        draws.pick((0.0, 0.3, 1.0) if odd else (0.7, 1.0)),
    )
    most = draws.pick((2, 6, 12, 1_000))

    def amount(high: int) -> float:
        return 0.0 if draws.chance(empty) else draws.amount(kind, high)

    def table(rows: int, high: int) -> list[list[float]]:
        return [[amount(high) for _ in range(resources)] for _ in range(rows)]

    pairs = [(port, node) for port in range(ports) for node in range(nodes) if draws.chance(joined)]
    names = [[draws.pick(sorted(UTILITIES)) for _ in range(resources)] for _ in range(nodes)]
    return {
        "kind": "rows",
        "requests": table(ports, 6),
        "capacity": table(nodes, most),
        "channels": pairs if draws.chance(0.8) else None,
        "utilities": draws.pick((names, draws.pick(sorted(UTILITIES)))),
        "weights": draws.pick((1.0, 0.01 if odd else 1.5, [draws.uniform(0.5, 2.0) for _ in range(resources)])),
        "overhead": draws.pick((0.0, 2.0 if odd else 0.1, [draws.uniform(0.0, 0.4) for _ in range(resources)])),
    }


def draw_arrivals(draws: Draws, slots: int, ports: int, most: int) -> dict[str, Any]:
    probability = draws.pick((0.05, 0.3, 0.7, 0.7, 1.0))
    if slots and most == 1 and draws.chance(0.2):
        law = {"num_slots": slots, "num_ports": ports, "seed": draws.seed()}
        if draws.chance(0.5):
            return {"kind": "bernoulli", "probability": probability, **law}
        return {"kind": "periodic", "period": draws.pick((4.0, 7.5)), "probability": 0.5, **law}
    rows = [[draws.whole(1, most) if draws.chance(probability) else 0 for _ in range(ports)] for _ in range(slots)]
    return {"kind": "rows", "rows": rows, "ports": ports, "iterator": draws.chance(0.1)}


def draw_submissions(draws: Draws, slots: int, ports: int, *, holding: bool) -> dict[str, Any]:
    """Draw jobs that processes submit: at any time if jobs wait, and otherwise one for each slot at most."""
    if holding and draws.chance(0.5):
        law = {"interval": draws.pick((0.3, 2.0)), "num_jobs": draws.whole(1, 10), "until": float(slots + 3)}
        return {"kind": "stream", "port": draws.whole(0, ports - 1), **law}
    times = [slot + draws.pick((0.0, -0.25, -0.5)) for slot in range(1, slots + 3) if draws.chance(0.5)]
    return {"kind": "times", "jobs": [(time, draws.whole(0, ports - 1)) for time in times]}


def draw_gang(draws: Draws, ports: int, resources: int) -> dict[str, Any]:
    kind = draws.pick(("whole", "quarters", "any", "mixed"))
    counts = [draws.whole(1, 4) for _ in range(ports)]
    components = [[[draws.amount(kind, 3) for _ in range(resources)] for _ in range(count)] for count in counts]
    return {
        "components": components,
        "minimum": [draws.whole(1, count) for count in counts],
        "whole": draws.chance(0.5),
    }


def draw_holding(draws: Draws, ports: int, *, odd: bool) -> dict[str, Any]:
    amount = draws.pick((0.1, 3.0, 40.0, 200.0) if odd else (10.0, 40.0))
    work = draws.pick((amount, [amount * draws.uniform(0.1, 2.0) for _ in range(ports)], {"low": 0.1, "high": amount}))
    return {
        "work": work,
        "minimum_speed": draws.pick((0.0, 0.5, 5.0) if odd else (0.0, 1e-9, 0.2)),
        "longest_service": draws.pick((1.0, 7.5) if odd else (60.0, 300.0)),
        "give_up_after": draws.pick((1, 3, 12)),
    }


def sizes_of(rewards: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of ports and of resources."""
    if rewards["kind"] == "generated":
        return rewards["num_ports"], len(multiserver.RESOURCES)
    return len(rewards["requests"]), len(rewards["requests"][0])


def rewards_of(rewards: dict[str, Any]) -> RewardModel:
    options = without_kind(rewards)
    if rewards["kind"] == "generated":
        return multiserver.generate(**options)
    graph = BipartiteGraph(options.pop("requests"), options.pop("capacity"), options.pop("channels"))
    return RewardModel(graph, **options)


def arrivals_of(workload: dict[str, Any]) -> Any:
    """Return the rows of arrivals."""
    options = without_kind(workload)
    if workload["kind"] == "bernoulli":
        return multiserver.bernoulli_arrivals(**options)
    if workload["kind"] == "periodic":
        return multiserver.periodic_arrivals(**options)
    return np.array(workload["rows"], dtype=np.int64).reshape(-1, workload["ports"])


def _submission(submissions: dict[str, Any] | None) -> list[Any]:
    if submissions is None:
        return []
    if submissions["kind"] == "stream":
        return [job_stream(**without_kind(submissions))]

    def process(cluster: Any) -> Any:
        for time, port in submissions["jobs"]:
            yield at(cluster.env, time, Phase.ARRIVAL)
            cluster.submit(port)

    return [process]


def _work(work: Any) -> Any:
    if not isinstance(work, dict):
        return work
    low, high = min(work.values()), max(work.values())
    return lambda rng, port: float(rng.uniform(low, high)) + 0.01 * (port + 1)


def build(drawn: Drawn) -> MultiServerCluster:
    """Return the cluster."""
    system = dict(drawn.system)
    rewards, gang = rewards_of(system.pop("rewards")), system.pop("gang", None)
    processes, holding = _submission(system.pop("submitted")), system.pop("holding", None)
    processes += processes_of(system, [], {})
    arrivals = arrivals_of(drawn.workload)
    options = {"gang": None if gang is None else Gang(**gang), "processes": processes, **system}
    stream = iter(arrivals) if drawn.workload.get("iterator") else arrivals
    if holding is None:
        return MultiServerCluster(rewards, stream, **options)
    return MultiSlotCluster(rewards, stream, **(holding | {"work": _work(holding["work"])}), **options)


def submitted(drawn: Drawn) -> Any:
    """Return what the records are to be compared with: nothing if there are jobs that no row tells of."""
    return None if drawn.system["submitted"] else arrivals_of(drawn.workload)
