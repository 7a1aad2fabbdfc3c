"""``desim fidelity``: compare the waiting times of agents with those that a log recorded."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from tyro.conf import arg

from desim import plugins
from desim.checks import check_int
from desim.cli.options import JsonFlag, listed_agents, problem_of
from desim.cli.output import print_json, print_table, print_text
from desim.cli.run import print_repairs
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.files import write_atomically
from desim.notes import plain, print_note
from desim.plotting.files import save_figure
from desim.problems.batch.fidelity import (
    NEAR_SECONDS,
    NEAR_SHARE,
    RecordedWaits,
    WaitAccuracy,
    group_nearness,
    idle_waits,
    nearness,
    quantiles_of,
    wait_log,
)
from desim.problems.batch.fidelity_figures import draw_groups, draw_waits
from desim.problems.batch.idle_nodes import LongWaits, waits_on_nodes
from desim.problems.batch.options import BatchOptions, load_workload
from desim.problems.batch.windows import seconds_of
from desim.records import make_directory
from desim.scenario import ProblemInstance, Scenario, measure, replay
from desim.sweep import Run, Store, SweepFailed, SweepInterrupted, Workers, run_all
from desim.sweep.simulated import AgentByName, ProblemSetting, shared_instance

__all__ = ["Fidelity", "simulate_waits"]

Floats = NDArray[np.float64]
#: Two controls: a replay of the recorded starts, which shows the limits of the model, and the trivial guess of 0 s.
RECORDED, NO_WAIT = "recorded", "no wait at all"
#: Starts later than recorded by less than this many seconds are rounding errors, not late.
LATE = 1e-3


def simulate_waits(run: Run) -> dict[str, Any]:
    """Simulate a run, check it, and return how long each job waited.

    Parameters
    ----------
    run : Run
        Run of the problem ``batch`` by a named agent.

    Returns
    -------
    dict
        ``waits``, in seconds, in order of arrival, with None for a job that did not start; and ``valid``.
    """
    scenario = Scenario(run.setting.problem, run.agent.policy, run.setting.options)
    try:
        instance = shared_instance(run.setting)
        result = replay(scenario, instance)
        if result.info["status"] == "interrupted":
            raise KeyboardInterrupt
        waits = result.jobs.sort("arrival_number")["waiting_time"].to_list()
        return {"waits": waits, "valid": measure(result, scenario, instance).validation["valid"]}
    except DesimError as error:
        kind = DesimError if isinstance(error, RecordError) else type(error)  # a storage error is no invalid argument
        raise kind(f"{scenario.agent}: {error}") from error


class _Findings:
    """Waiting times per agent beside those of the log, their accuracy, and the ranking of agents by it."""

    def __init__(
        self, waits: Mapping[str, Floats], log: RecordedWaits, idle: tuple[int, int], on_nodes: LongWaits | None
    ) -> None:
        self.waits, self.log, self.idle, self.on_nodes = waits, log, idle, on_nodes
        self.agents = {agent: nearness(times, log.waiting_time) for agent, times in waits.items()}
        self.groups = {agent: group_nearness(times, log) for agent, times in waits.items()}
        self.ranked = sorted(
            self.agents, key=lambda agent: (-self.agents[agent].near, self.agents[agent].median_absolute_error)
        )

    def document(self) -> dict[str, Any]:
        """Return all findings as plain values."""
        known = ~np.isnan(self.log.waiting_time)
        late = self.waits[RECORDED] - self.log.waiting_time
        late = late[late > LATE]
        median, most = (float(np.median(late)), float(late.max())) if len(late) else (0.0, 0.0)
        return {
            "near": {"seconds": NEAR_SECONDS, "share": NEAR_SHARE},
            "ranked": self.ranked,
            "agents": {agent: asdict(self.agents[agent]) | {"bias": self.agents[agent].bias} for agent in self.ranked},
            "recorded": quantiles_of(self.log.waiting_time),
            "quantiles": {agent: quantiles_of(self.waits[agent][known]) for agent in self.ranked},
            "long_waits": {"jobs": self.idle[0], "with_free_cores": self.idle[1]},
            "long_waits_on_nodes": None if self.on_nodes is None else self.on_nodes._asdict(),
            "late": {"jobs": len(late), "median": median, "most": most},
            "groups": {
                agent: {by: {name: asdict(one) for name, one in names.items()} for by, names in groups.items()}
                for agent, groups in self.groups.items()
            },
        }


@dataclass(frozen=True)
class Fidelity:
    """Compare the waiting times that agents produce with those that a log recorded.

    A waiting time is near if it is off by at most ten minutes or 20 % of the recorded one. Agents are ranked by the
    share of jobs whose waiting time is near. Two controls are listed with them: `recorded` replays the starts of the
    log, as far as the simulated machine has the cores, and `no wait at all` starts every job at once.

    Examples::

        desim fidelity batch --trace KTH-SP2-1996-2.swf --cores 100 --agents fcfs,easy,conservative --out fidelity
        desim fidelity batch --trace log.swf.gz --cores 1752 --agents easy,easy-sjf --queue-field 20
        desim fidelity batch --trace jobs.csv --cores 64 --agents easy,my_agents:Mine --no-enforce-time-limit

    `desim fidelity batch --help` lists all options of workload and system. Finished runs are stored in DIR/runs at
    once: run the same command again to continue after an interruption.
    """

    problem: ClassVar[str | None] = None
    agents: Annotated[str, arg(metavar="NAME,NAME,...")]
    """Agents to compare with the log: names from `desim list`, or MODULE:NAME for your own."""
    queue_field: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 15, if stated)")] = None
    """Field of a Standard Workload Format log that holds a job's queue; some logs have more than 18 fields."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: nothing is written)")] = None
    """Directory for runs, fidelity.json, fidelity.csv and figures."""
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: one per processor)")] = None
    """Number of worker processes."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Simulate, compare, print, write; return 1 if a run is invalid or was interrupted."""
        if problem_of(self) != "batch":
            raise InvalidConfiguration(f"PROBLEM: got {problem_of(self)}, expected batch: only its logs record waits")
        options: BatchOptions = getattr(self, "options", None) or BatchOptions()
        agents = listed_agents("batch", self.agents)
        changes = (options.workload.load, options.site.moldable, options.site.dependencies)
        if not agents or options.stream or changes not in ((None, None, None), (None, None, "drop")):
            raise InvalidConfiguration(
                "expected --agents, and neither --stream nor --load, --moldable, --dependencies, which change the log"
            )
        setting = ProblemSetting("batch", "batch", options)
        instance, workload = shared_instance(setting), load_workload(options.workload)
        every = _log_of(workload, options, self.queue_field)
        log = _without_warm_up(every, instance, options)
        if not self.as_json:
            print_text(f"{instance.name}: {instance.size}\n")
            if instance.report is not None:
                print_repairs(instance.report.as_dict())
        try:
            waits, invalid = self._waits(agents, replace(setting, options=instance.options))
        except SweepInterrupted as interruption:
            print_note(f"desim: interrupted: {interruption}")
            return 1
        except SweepFailed as failure:
            first = failure.failed[0]
            if isinstance(first.error, DesimError):
                raise first.error from failure
            print_note(first.trace.rstrip())
            raise
        counted = ~np.isnan(log.waiting_time)
        jobs = list(instance.workload or ())
        idle = idle_waits(jobs, every.waiting_time, instance.facts["cores"], counted=counted)
        findings = _Findings(waits, log, idle, _waits_on_nodes(workload, jobs, every, counted))
        described = self._described(instance, findings)
        files = [] if self.out is None else _write(self.out, described, findings)
        if self.as_json:
            print_json(described)
        else:
            _print(described, findings)
            for path in files:
                print_text(f"written: {path}")
        for agent in invalid:
            print_note(f"desim: {agent}: the run is invalid; see desim run batch --agent {agent}")
        return 1 if invalid else 0

    def _waits(self, agents: Sequence[str], setting: ProblemSetting) -> tuple[dict[str, Floats], list[str]]:
        """Return the waiting times by agent, the controls last, and the agents whose runs are invalid."""
        options = setting.options
        names = {agent: agent for agent in agents} | {f"replay:{options.workload.trace}": RECORDED}
        runs = [Run(setting, AgentByName(agent, agent, "batch"), options.workload.seed) for agent in names]
        store = None if self.out is None else Store(self.out / "runs")
        if store is not None:
            make_directory(store.directory)
        workers = Workers(os.cpu_count() or 1 if self.workers is None else check_int("workers", self.workers, least=1))
        found = run_all(simulate_waits, runs, store, workers=workers, title="fidelity", go_on=False)
        waits = {
            name: np.array([math.nan if wait is None else wait for wait in found[run]["waits"]])
            for name, run in zip(names.values(), runs, strict=True)
        }
        invalid = [name for name, run in zip(names.values(), runs, strict=True) if found[run]["valid"] is False]
        return waits | {NO_WAIT: np.zeros(len(waits[RECORDED]))}, invalid

    def _described(self, instance: ProblemInstance, findings: _Findings) -> dict[str, Any]:
        """Return all results as plain values."""
        mine = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "options"}
        repairs = instance.report.as_dict() if instance.report is not None else None
        return {
            "workload": {"name": instance.name, **instance.facts, "repairs": repairs},
            "options": mine | asdict(instance.options),
            **findings.document(),
        }


def _log_of(workload: Any, options: BatchOptions, queue_field: int | None) -> RecordedWaits:
    """Return the recorded waiting times of the simulated jobs, and their groups."""
    trace = workload.trace
    if trace is None or trace.waiting_time is None:
        raise InvalidConfiguration(f"{workload.name}: records no waits; give a log with --trace FILE")
    queues = None
    if queue_field is not None:
        texts = plugins.workload_provider("batch", options.workload.trace).texts(options.workload.trace, queue_field)
        queues = [texts[line] for line in trace.place.tolist()]
    elif len({job.queue for job in trace.jobs}) > 1:
        queues = [job.queue for job in trace.jobs]
    start = trace.header.number("UnixStartTime") or 0
    zone = _zone(trace.header.fields.get("TimeZoneString", ""))
    return wait_log(trace.jobs, trace.waiting_time, queues=queues, clock_start=start, zone=zone)


def _waits_on_nodes(
    workload: Any, jobs: Sequence[Any], every: RecordedWaits, counted: NDArray[np.bool_]
) -> LongWaits | None:
    """Return how long waits relate to free nodes, if the log states where its jobs ran."""
    where, nodes = getattr(workload.trace, "recorded_nodes", None) or {}, getattr(workload, "nodes", ())
    if not where or not {name for one in where.values() for name, _ in one} <= {node.name for node in nodes}:
        return None
    return waits_on_nodes(jobs, every.waiting_time, nodes, where, counted=counted)


def _part(count: int, whole: int) -> str:
    """Return a number as text, with its share of the whole."""
    return f"{count:,}" + (f" ({count / whole:.1%})" if whole else "")


def _zone(name: str) -> tzinfo:
    """Return a time zone by name; UTC if the name is unknown."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _without_warm_up(log: RecordedWaits, instance: ProblemInstance, options: BatchOptions) -> RecordedWaits:
    """Drop the recorded waits of the warm-up, since the simulation starts with an empty machine."""
    times = np.array([job.submission_time for job in instance.workload or ()])
    warm_up = seconds_of("warm_up", options.metrics.warm_up)
    waits = np.where(times < times[0] + warm_up, math.nan, log.waiting_time)
    if np.isnan(waits).all():
        raise InvalidConfiguration(f"--warm-up: got {warm_up:g} s, which leaves no recorded wait")
    return replace(log, waiting_time=waits)


def _write(out: Path, described: dict[str, Any], findings: _Findings) -> list[Path]:
    """Write numbers and figures; return the paths."""
    text = json.dumps(plain(described), indent=2, allow_nan=False) + "\n"
    write_atomically(out / "fidelity.json", lambda draft: draft.write_text(text))
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    names = [item.name for item in fields(WaitAccuracy)]
    writer.writerow(["agent", "by", "group", *names])
    for agent in findings.ranked:
        rows = {("all", ""): described["agents"][agent]} | {
            (by, group): asdict(one) for by, found in findings.groups[agent].items() for group, one in found.items()
        }
        writer.writerows([agent, by, group, *(row[name] for name in names)] for (by, group), row in rows.items())
    write_atomically(out / "fidelity.csv", lambda draft: draft.write_text(table.getvalue()))
    shown = [agent for agent in findings.ranked if agent not in (RECORDED, NO_WAIT)]
    recorded = findings.log.waiting_time
    known = ~np.isnan(recorded)
    curves = {RECORDED: recorded[known]} | {agent: findings.waits[agent][known] for agent in shown}
    panels = {"waits": draw_waits(curves), "groups": draw_groups({agent: findings.groups[agent] for agent in shown})[0]}
    files = [out / "fidelity.json", out / "fidelity.csv"]
    for name, panel in panels.items():
        figure = panel.get_figure(root=True)
        assert figure is not None
        files.append(save_figure(figure, out / f"{name}.png", "png"))
    return files


def _print(described: Mapping[str, Any], findings: _Findings) -> None:
    heads = ["agent", "near", "median\nerror, s", "mean\nerror, s", "mean\nwait, s", "rank\ncorrelation", "distance"]
    rows = [
        [
            agent,
            f"{100 * one.near:.1f} %",
            f"{one.median_absolute_error:,.0f}",
            f"{one.mean_absolute_error:,.0f}",
            f"{one.mean_predicted:,.0f}",
            "" if math.isnan(one.rank_correlation) else f"{one.rank_correlation:.3f}",
            f"{one.distance:.3f}",
        ]
        for agent in findings.ranked
        for one in [findings.agents[agent]]
    ]
    one = findings.agents[RECORDED]
    print_table(heads, rows, title=f"{one.jobs:,} recorded waits, {described['recorded']['mean']:,.0f} s in the mean")
    late = described["late"]
    words = f", by {late['median']:,.0f} s at the median and {late['most']:,.0f} s at most" if late["jobs"] else ""
    print_text(f"recorded starts that the simulated machine cannot reproduce: {late['jobs']:,} jobs start late{words}")
    long, free = described["long_waits"].values()
    text = f"recorded waits longer than ten minutes: {long:,}; with enough free cores throughout: {_part(free, long)}"
    if findings.on_nodes is not None:
        _, room, behind, alone = findings.on_nodes
        text += (
            f"\nwith enough free resources on nodes throughout: {_part(room, long)}; of these behind an earlier job of "
        )
        text += (
            f"the same user: {_part(behind, room)}; with no earlier job of the user running or queued: "
            f"{_part(alone, room)}"
        )
    print_text(f"{text}\n")
    shares = list(next(iter(described["quantiles"].values())))
    known = {"the log": described["recorded"]} | described["quantiles"]
    rows = [[name, *(f"{row[share]:,.0f}" for share in shares)] for name, row in known.items() if name != NO_WAIT]
    print_table(["wait, s", *shares], rows, title="distributions")
    shown = [agent for agent in findings.ranked if agent != RECORDED]
    for by, members in findings.groups[RECORDED].items():
        rows = [
            [name, f"{one.jobs:,}", f"{one.mean_recorded:,.0f}"]
            + [f"{100 * findings.groups[agent][by][name].near:.0f} %" for agent in shown]
            for name, one in members.items()
        ]
        print_table([by, "jobs", "mean\nwait, s", *shown], rows, title=f"near, by {by}")
