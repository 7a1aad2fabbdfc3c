"""Random batch clusters as sites run them: nodes with resources, dependencies, limits, reservations, QOS.

They stand beside those of `everything`, whose numbers keep their meaning. A scenario is a number here, too, of
:func:`site`; to see one and run it alone::

    python tests/properties/everything_sites.py 1234
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
from everything import CHECKS, Scenario, main
from everything_anything import AnySite
from everything_draws import Drawn, Draws, moments_of, processes_of, stream_of
from everything_names import ANY, agent_names, brings_predictor, create, is_learned, kind_of, looks_ahead

from desim.agents.batch.priorities import PRIORITIES
from desim.problems.batch import (
    PLACEMENTS,
    AdvanceReservation,
    BatchCluster,
    Dependency,
    FragmentationGradient,
    Job,
    Limit,
    Node,
    QualityOfService,
    Request,
    typical_requests,
)
from tests.jobs import of_sizes, with_fields

__all__ = ["Site", "families", "refuses_nodes", "site"]

SCALES = {"whole": 1.0, "quarters": 0.25, "any": None}
"""In what times are counted: whole ones and quarters so that much happens at once, or whatever is drawn."""


class Site(Scenario):
    """A site, its workload and an agent."""

    __slots__ = ()

    def __str__(self) -> str:
        """Show all values, and how to run it alone."""
        return super().__str__().replace("everything.py", "everything_sites.py")

    @property
    def refuses(self) -> str:
        """What the agent says where it cannot take part; empty if it can."""
        on_nodes = "nodes" in self.drawn.system
        return "got a cluster with nodes, expected one without" if on_nodes and refuses_nodes(self.agent_name) else ""

    def cluster(self) -> BatchCluster:
        """Return the cluster, with a fresh workload and fresh processes."""
        return build(self.drawn)

    def workload(self) -> list[Job]:
        """Return what the records are to be compared with."""
        return jobs_of(self.drawn)

    def agent(self) -> Any:
        """Return the agent."""
        return AnySite() if self.agent_name == ANY else create("batch", self.agent_name)


def refuses_nodes(name: str) -> bool:
    """Tell whether an agent refuses clusters of nodes: those that count cores, or reserve particular ones, do."""
    base = name.partition(":")[2] if looks_ahead(name) else name.removeprefix("preemptive-")
    counting = (
        "easy-specific",
        "easy-moldable",
        "conservative-specific",
        "search:",
        "split-window:",
        "inspector",
        "sched",
    )
    return base.startswith((*counting, *(f"window-{rule}-" for rule in ("reserving", "weighing", "aged"))))


@cache
def families() -> tuple[tuple[str, ...], ...]:
    """Return names of agents that belong together: scenarios take the families in turns, and each its names."""
    names = agent_names("batch")
    orders = tuple(PRIORITIES)
    ahead = tuple(name for name in names if looks_ahead(name) and not is_learned(name))
    rules = tuple(name for name in names if name.startswith("window-"))
    learned = tuple({kind_of(name): name for name in names if is_learned(name)}.values())
    backfilling = {
        prefix: tuple(name for name in names if name.startswith(prefix) and ":" not in name)
        for prefix in ("backfilling", "easy", "conservative")
    }
    bases = (*orders, *(name for prefix in backfilling for name in backfilling[prefix]))
    preempting = tuple(f"preemptive-{name}" for name in bases)
    others = tuple(name for name in names if name.startswith("search:"))
    molding = tuple(name for name in backfilling["easy"] if "moldable" in name)
    found = (
        backfilling["easy"],
        preempting[::2],
        backfilling["conservative"],
        (ANY,),
        orders,
        preempting[1::2],
        backfilling["backfilling"],
        molding,
        rules,
        (ANY,),
        (*ahead, *others, *learned),
    )
    assert all(found)
    return found


def site(number: int) -> Site:
    """Return a scenario by its number, from 0 on."""
    turns, turn = divmod(number, len(families()))
    family = families()[turn]
    draws = Draws(np.random.default_rng([2306, number]))
    agent = family[turns * 7 % len(family) if len(family) % 7 else turns % len(family)]
    drawn = draw(draws, agent)
    checks = tuple(name for name, share in CHECKS.items() if draws.chance(2 * share))
    if drawn.workload["iterator"]:
        checks = tuple(name for name in checks if name != "forked")
    return Site(number, "batch", draws.seed(), checks, draws.whole(0, 25), drawn)


# -- what is drawn ------------------------------------------------------------------------------------


def draw(draws: Draws, agent: str) -> Drawn:
    """Draw a site and its jobs, as plain values."""
    much = draws.uniform(0.3, 1.0)
    kills = draws.chance(0.75)
    system: dict[str, Any] = {
        "enforce_time_limit": kills,
        "infeasible": "forward" if draws.chance(0.3) else "raise",
        "too_wide": "reject",
        "on_outage": "lose" if draws.chance(0.25) else "requeue",
        "ask_when_empty": draws.chance(0.15),
    }
    of_cores = "moldable" in agent or draws.chance(0.5 if refuses_nodes(agent) else 0.2)
    if of_cores and not (refuses_nodes(agent) and draws.chance(0.1)):
        system["num_cores"] = draws.pick((2, 3, 4, 6, 10, 33))
    else:
        system["nodes"] = draw_nodes(draws)
        system["placement"] = draws.pick((*PLACEMENTS, "fgd"))
    scale = SCALES[draws.pick(tuple(SCALES))]
    rows = draw_rows(
        draws, system, scale, draws.pick((0, 1, 3, 6, 10) if looks_ahead(agent) else (0, 2, 5, 12, 20, 40))
    )
    ids = [row[0] for row in rows]
    span = max(moments_of([row[1] for row in rows], [row[2][0][1] for row in rows]), default=10.0)
    time = lambda most: moment(draws, scale, most)  # noqa: E731  # one scale for all
    if draws.chance(0.4 * much):
        system["over_time_limit"] = time(5) + 0.25
    if draws.chance(0.6 * much):
        system["checkpoint_interval"] = draws.pick((0.5, 1.0, 4.0, 0.3))
    if ids and draws.chance(0.6 * much):
        system["dependencies"] = draw_after(draws, ids, scale)
    if draws.chance(0.6 * much):
        system["limits"], system["queues"] = draw_limits(draws, system, ids)
    if draws.chance(0.6 * much):
        system["reservations"] = draw_reservations(draws, system, scale, span)
    if draws.chance(0.9 if agent.startswith("preemptive-") or agent == ANY else 0.3 * much):
        system |= draw_qualities(draws, ids)
    until = draws.end(moments_of([row[1] for row in rows], [row[2][0][1] for row in rows]), 0.15)
    units, choice = len(system["nodes"]) if "nodes" in system else system["num_cores"], draws.whole(0, 7)
    if choice < 3:
        kind = "whole" if scale == 1.0 and span > 8 else "any"
        system["outages"] = draws.outages(units, max(span, 1.0), kind, forever=draws.chance(0.3))
    elif choice == 3 and span > 0:
        system["outages"] = {
            "kind": "random",
            "mean_time_to_failure": draws.uniform(0.3, 3.0) * span,
            "mean_time_to_repair": draws.uniform(0.01, 0.3) * span,
            "units_per_failure": draws.whole(1, max(1, units // 2)),
        }
        until = min(until, draws.uniform(1.0, 4.0) * span)  # what is cut again and again never ends
    elif choice == 4 and rows:
        system["stop_after"] = [draws.pick(("arrival", "start", "completion")), draws.whole(1, len(rows))]
    own = sorted(draws.some(range(len(rows)), 3)) if "dependencies" not in system and draws.chance(0.1) else []
    workload = {"kind": "site", "rows": rows, "own": own, "iterator": draws.chance(0.08) and not looks_ahead(agent)}
    system["cycle"] = draws.cycle()
    predictor = draws.predictor()
    system["predictor"] = "request" if brings_predictor(agent) else predictor
    return Drawn(system, workload, agent, {}, until)


def moment(draws: Draws, scale: float | None, most: int) -> float:
    """Draw a time from 0 on, in whole parts of a scale or any."""
    return draws.uniform(0.0, most) if scale is None else scale * draws.whole(0, int(most / scale))


def draw_nodes(draws: Draws) -> list[dict[str, Any]]:
    """Draw nodes of a few kinds."""
    kinds = []
    for number in range(draws.whole(1, 3)):
        gpus = draws.pick((0, 0, 1, 2, 4))
        kinds.append(
            {
                "cores": draws.whole(1, 8),
                "memory": draws.pick((0, 10, 40)),
                "gpus": gpus,
                "gpu_model": draws.pick(("", "A", "B")) if gpus else "",
                "resources": {"licenses": draws.whole(0, 3)} if draws.chance(0.3) else {},
                "partition": draws.pick(("", "p", "q")),
                "features": draws.some(("ssd", "fast"), 2) if draws.chance(0.5) else [],
                "speed": draws.pick((1.0, 1.0, 1.0, 2.0, 0.5, 1.7)),
                "name": "abc"[number],
            }
        )
    return [
        {**kind, "name": f"{kind['name']}{number}", "features": sorted(kind["features"])}
        for kind in kinds
        for number in range(draws.whole(1, 3))
    ]


def draw_request(draws: Draws, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw what a job requests: mostly what some node could give."""
    node = draws.pick(nodes)
    given: dict[str, Any] = {
        "tasks": draws.pick((1, 1, 2, 3)),
        "cores": draws.whole(1, node["cores"]) if draws.chance(0.9) else draws.whole(1, 8),
    }
    if node["memory"] and draws.chance(0.5):
        given["memory"] = draws.whole(0, node["memory"])
    if node["gpus"] and draws.chance(0.7):
        given["gpus"] = draws.pick((0.25, 0.5, 0.7, 0.001, 1, 1, node["gpus"]))
        if node["gpu_model"] and draws.chance(0.3):
            given["gpu_models"] = (node["gpu_model"],)
    if node["resources"] and draws.chance(0.4):
        given["resources"] = (("licenses", draws.whole(0, 2)),)
    if node["partition"] and draws.chance(0.3):
        given["partition"] = node["partition"]
    if node["features"] and draws.chance(0.3):
        given["features"] = (node["features"][0],)
    given["excluded_features"] = ("fast",) if draws.chance(0.07) else ()
    given["exclusive"] = draws.chance(0.1)
    given["tasks_per_node"] = draws.whole(1, 2) if draws.chance(0.15) else None
    return given


def draw_rows(draws: Draws, system: dict[str, Any], scale: float | None, count: int) -> list[Any]:
    """Draw jobs: identifier, submission, sizes, user; a size is what is requested, for how long, and the run times."""
    nodes, kills = system.get("nodes"), system["enforce_time_limit"]
    longest, gap = draws.pick((5, 12, 40)), draws.pick((0, 1, 4, 12))
    moldable = draws.pick((0.0, 0.0, 0.6))
    plain = draws.pick((0.0, 0.0, 0.3))  # jobs that ask nodes for cores alone
    templates = [draw_request(draws, nodes) for _ in range(draws.whole(1, 8))] if nodes else []
    models = sorted({node["gpu_model"] for node in nodes or () if node["gpu_model"]})
    time, rows = moment(draws, scale, 10), []
    for job_id in draws.rng.permutation(2 * count)[:count].tolist():
        sizes = []
        for _ in range(draws.whole(2, 3) if draws.chance(moldable) else 1):
            requested = moment(draws, scale, longest)
            run = moment(draws, scale, longest) if kills or draws.chance(0.1) else requested * draws.pick((0, 0.5, 1))
            by_model = {model: moment(draws, scale, longest) for model in models if draws.chance(0.3)}
            cores: Any = draws.whole(1, system["num_cores"] + draws.chance(0.05)) if nodes is None else 0
            if nodes is not None:
                cores = draws.whole(1, 6) if draws.chance(plain) else draws.pick(templates)
            sizes.append([cores, requested, run, by_model if isinstance(cores, dict) and draws.chance(0.3) else {}])
        rows.append([job_id, time, sizes, draws.whole(-1, 2)])
        time += moment(draws, scale, gap) if gap and not draws.chance(0.3) else 0.0
    return rows


def draw_after(draws: Draws, ids: list[int], scale: float | None) -> dict[int, Any]:
    """Draw what some jobs come after; the order has nothing to do with their times."""
    order = draws.rng.permutation(ids).tolist()
    return {
        job_id: [draws.some(order[:place], 3), draws.pick((0.0, moment(draws, scale, 8)))]
        for place, job_id in enumerate(order)
        if draws.chance(0.35)
    }


def draw_limits(draws: Draws, system: dict[str, Any], ids: list[int]) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Draw limits of users, partitions and queues, of which some turn jobs away, and the queues of jobs."""
    most = draws.whole(2, 8)
    queues = {job_id: draws.pick(("short", "long")) for job_id in ids if draws.chance(0.8)}
    limits: list[dict[str, Any]] = [
        {"running_jobs": draws.whole(1, 4), "running_cores": most},
        {"scope": "user", "members": ["1"], "running_cores": most},
        {"scope": "queue", "running_cores": 2 * most},
        {"scope": "queue", "members": ["short"], "job_time": 10.0, "job_cores": most},
        {"scope": "partition", "members": ["p"], "running_jobs": 1} if "nodes" in system else {"running_jobs": 2},
    ]
    return draws.some(limits, 3) or limits[:1], queues


def draw_reservations(draws: Draws, system: dict[str, Any], scale: float | None, span: float) -> list[dict[str, Any]]:
    """Draw reservations, of which some begin as others end, and some on nodes admit users."""
    most = max(4, int(span))
    reservations: list[dict[str, Any]] = []
    if "nodes" not in system:
        begin = moment(draws, scale, most)
        for _ in range(draws.whole(1, 4)):
            end = begin + moment(draws, scale, most // 3 + 1) + 1.0
            reservations.append({"start": begin, "end": end, "cores": draws.whole(1, system["num_cores"])})
            begin = end + draws.pick((0.0, moment(draws, scale, most // 3 + 1)))
        return reservations
    nodes = system["nodes"]
    free = [moment(draws, scale, most)] * len(nodes)  # from when on each belongs to no reservation
    there = sorted({node["partition"] for node in nodes if node["partition"]})
    for _ in range(draws.whole(1, 5)):
        which = draws.pick(("all", "some", "some", "partition" if there else "some"))
        given: dict[str, Any] = {"nodes": "all"}
        numbers = list(range(len(nodes)))
        if which == "some":
            numbers = sorted(draws.some(numbers, 3)) or [0]
            given = {"nodes": [number if draws.chance(0.5) else nodes[number]["name"] for number in numbers]}
        elif which == "partition":
            given = {"partition": draws.pick(there)}
            numbers = [place for place, node in enumerate(nodes) if node["partition"] == given["partition"]]
        begin = max(free[number] for number in numbers)
        end = begin + moment(draws, scale, most // 3 + 1) + 1.0
        reservations.append(
            {"start": begin, "end": end, "users": draws.some((0, 1, 2), draws.pick((0, 0, 2))), **given}
        )
        for number in numbers:
            free[number] = end + draws.pick((0.0, moment(draws, scale, most // 3 + 1)))
    return reservations


def draw_qualities(draws: Draws, ids: list[int]) -> dict[str, Any]:
    """Draw qualities of service, of which each may preempt some of those before it."""
    names = [f"q{number}" for number in range(draws.whole(1, 4))]
    qos = [
        {
            "name": name,
            "priority": float(draws.pick((0, place, place, 5))),
            "preempts": [other for other in names[:place] if draws.chance(0.8)],
            "mode": draws.pick(("requeue", "suspend")),
        }
        for place, name in enumerate(names)
    ]
    return {"qos": qos, "qos_of": {job_id: draws.pick(names) for job_id in ids if draws.chance(0.9)}}


# -- what is made of it -------------------------------------------------------------------------------


def jobs_of(drawn: Drawn) -> list[Job]:
    """Return all jobs, those of a process of its own included."""
    return [job_of(*row) for row in drawn.workload["rows"]]


def job_of(job_id: int, submission: float, sizes: list[Any], user: int) -> Job:
    """Return a job: rigid if it has one size."""
    made = [
        Job.of_tasks(job_id, submission, Request(**cores), requested, run, user, run_times=by_model)
        if isinstance(cores, dict)
        else Job(job_id, submission, cores, requested, run, user)
        for cores, requested, run, by_model in sizes
    ]
    return made[0] if len(made) == 1 else of_sizes(made)


def build(drawn: Drawn) -> BatchCluster:
    """Return the cluster."""
    system, jobs = copy.copy(drawn.system), jobs_of(drawn)
    processes = processes_of(system, jobs, drawn.workload)
    if "nodes" in system:
        nodes = [Node(**node | {"features": frozenset(node["features"])}) for node in system["nodes"]]
        system["nodes"] = nodes
        if system["placement"] == "fgd":
            requests = [job.request or Request(tasks=job.requested_cores) for job in jobs]
            system["placement"] = FragmentationGradient(typical_requests(requests or [Request()]))
    after = {
        job_id: Dependency(tuple(others), think) for job_id, (others, think) in system.pop("dependencies", {}).items()
    }
    jobs = with_fields(jobs, after=after, qos=system.pop("qos_of", {}), queue=system.pop("queues", {}))
    for name, kind in (("limits", Limit), ("reservations", AdvanceReservation), ("qos", QualityOfService)):
        if name in system:
            system[name] = [kind(**given) for given in system[name]]
    stream = stream_of(jobs, drawn.workload | ({"iterator": False} if after else {}))  # dependencies take a list
    return BatchCluster(stream, processes=processes, **system)


if __name__ == "__main__":
    main(site)
