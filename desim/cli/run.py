"""``desim run``: simulate one run, check it, and print its metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar

from tyro.conf import arg

from desim import plugins
from desim.cli.options import JsonFlag, problem_of
from desim.cli.output import print_json, print_table, print_text
from desim.cli.targets import clear_result
from desim.core import Agent, Engine
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many
from desim.notes import print_note, progress
from desim.plotting.axes import FigureFormat, Style
from desim.problem import ProblemDescriptor
from desim.provenance import keep
from desim.result import Result
from desim.scenario import ProblemInstance, checked, metrics_of, replay, system_of

__all__ = ["Run", "print_metrics", "print_repairs"]


@dataclass(frozen=True)
class Run:
    """Simulate a workload with one agent, check the records, and print the metrics.

    Examples::

        desim run batch --cores 256 --jobs 5000 --load 0.9 --agent easy-fcfs --out easy
        desim run batch --trace KTH-SP2-1996-2.swf.gz --agent sjf --out sjf
        desim run batch --trace huge.swf.gz --stream --agent fcfs --out fcfs --force
        desim run dag --jobs 10 --executors 5 --agent heft
        desim run deferrable --workload fluctuating --agent tetris
        desim run multiserver --slots 1000 --agent drf
        desim run my_problem:make --set size=3 --agent my_agents:Mine

    `desim run PROBLEM --help` lists the options of a problem. Ctrl-C ends a run early; the records up to that point are
    complete and are kept, for `desim validate` and `desim view`.
    """

    problem: ClassVar[str | None] = None
    agent: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="(default: set by the problem)")] = None
    """Agent that decides: a name from `desim list`, or MODULE:NAME for your own."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: records are not written)")] = None
    """Directory for the records."""
    style: Annotated[Style | None, arg(help_behavior_hint="(default: no figures)")] = None
    """Draw the figures to DIR/figures, for this use: a screen, one column of a paper (3.5 inches), or both (7.16)."""
    format: FigureFormat = "png"
    """File format of the figures."""
    engine: Engine = "auto"
    """What simulates the run, whose records do not depend on it: auto compiles long runs of batch where it can."""
    force: bool = False
    """Replace an existing result."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Simulate, check, print; return 1 if the run was interrupted or is invalid."""
        if self.style is not None and self.out is None:
            raise InvalidConfiguration(f"--style: got {self.style!r} without --out; figures need a directory")
        problem, options = problem_of(self), getattr(self, "options", None)
        system = system_of(problem)
        agent = system.default_agent if self.agent is None else self.agent
        if agent is None:
            raise InvalidConfiguration("--agent is missing: expected a name; see desim list")
        if not system.is_own:
            plugins.create_agent(problem, agent)  # before the workload is read
        instance = system.instance(options)
        agent, made = plugins.named_agent(instance.kind.name, agent)  # before the directory is cleared
        if disregarded := instance.make(made).disregarded(made):
            print_note(f"desim: {disregarded}")
        if self.out is not None:
            clear_result(self.out, force=self.force)
        with TemporaryDirectory(prefix="desim-") as elsewhere:  # long records that the user does not keep
            out = Path(elsewhere, "run") if self.out is None and instance.is_streamed else self.out
            return self._perform(agent, instance, made, out)

    def _perform(self, name: str, instance: ProblemInstance, agent: Agent, out: Path | None) -> int:
        problem, begin = problem_of(self), time.perf_counter()
        options: Any = getattr(self, "options", None)
        seed, steps = system_of(problem).seed_of(options), instance.steps
        with progress(name, steps.total if steps else None, steps.unit if steps else "steps") as listen:
            result = replay(instance, agent, seed, out=out, listen=listen, engine=self.engine)
        seconds = time.perf_counter() - begin
        if remarks := getattr(agent, "remarks", None):
            print_note(f"desim: {remarks()}")
        repairs = instance.report.as_dict() if instance.report is not None else None
        if self.out is not None:
            data = {"data": instance.facts["citation"]} if "citation" in instance.facts else {}
            keep(self.out, {"workload": instance.name, "agent": name} | data | asdict(options))
        if result.info["status"] == "interrupted":  # batch systems soon kill what does not end
            where = f"complete records up to then are in {self.out}" if self.out else "no records were written"
            unit = instance.kind.time_unit
            print_note(f"desim: interrupted at {result.info['end_time']:.10g} {unit} of simulated time; {where}")
            if self.as_json:
                print_json({"run": result.info, "records": self.out, "seconds": seconds})
            return 1
        if result.info["status"] == "stalled":
            print_note(f"desim: stalled: {result.info['stalled']}")
        metrics, (validation, words) = metrics_of(result, problem, options), checked(result, instance)
        if self.as_json:
            print_json(
                {
                    "run": result.info,
                    "workload": {"name": instance.name, **instance.facts, "repairs": repairs},
                    "options": {"problem": problem, "agent": name} | asdict(options),
                    "metrics": metrics,
                    "validation": validation,
                    "records": self.out,
                    "seconds": seconds,
                }
            )
        else:
            _print_run(result, seed, instance, seconds)
            print_metrics(metrics, instance.kind)
            print_text(words, "bold red" if validation["valid"] is False else "")
            if self.out is not None:
                print_text(f"records: {self.out}")
        if self.out is not None and self.style is not None:
            from desim.plotting.files import draw_figures

            look: Any = {"style": self.style, "file_format": self.format}
            for path in draw_figures({name: result}, self.out / "figures", **look):
                print_note(f"written: {path}")
        return 0 if validation["valid"] is not False and result.info["status"] == "complete" else 1


def _print_run(result: Result, seed: int, instance: ProblemInstance, seconds: float) -> None:
    from desim.formatting import format_value

    info, unit = result.info, instance.kind.time_unit
    source = f"{instance.name}, seed {seed}" if instance.is_drawn else instance.name
    end = f"{info['status']} at {info['end_time']:,.10g} {unit}, simulated in {seconds:.2f} s"
    print_text(f"{info['agent']} on {instance.place}, {source}: {end}")
    if "cores_stated" in instance.facts:
        print_text(f"cores: {instance.facts['cores_stated']}")
    if instance.report is not None:
        print_repairs(instance.report.as_dict())
    if (realized := instance.kind.words.realized) is not None:
        numbers = {name: value for name, value in realized(result).items() if not math.isnan(value)}
        print_text(f"realized: {', '.join(f'{name} {format_value(value)}' for name, value in numbers.items())}")
    told = instance.kind.words.in_force
    for sentence in [] if told is None else told(result):
        print_text(sentence)


def print_repairs(repairs: Mapping[str, Any]) -> None:
    """Print what a reader of a workload dropped, changed and ignored, if anything.

    Parameters
    ----------
    repairs : mapping
        Repair report as plain values.
    """
    if repairs.get("unread"):
        print_text(f"not read: {', '.join(repairs['unread'])}")
    reasons = [reason for reason in repairs["reasons"].values() if reason["action"] != "noted"]
    if not reasons:
        return
    place = f"{repairs['unit']}s"
    rows = [
        [
            reason["meaning"],
            reason["action"],
            f"{reason['count']:,}",
            ", ".join(map(str, reason["places"])) + (", ..." if reason["count"] > len(reason["places"]) else ""),
        ]
        for reason in reasons
    ]
    read, dropped = how_many(repairs["rows"], "row"), how_many(repairs["dropped"], "row")
    title = f"{read} of the file: {how_many(repairs['jobs'], 'job')}, {dropped} dropped"
    print_table(["repair", "action", "rows", place], rows, words=(1, 3), title=title)


def print_metrics(metrics: Mapping[str, float], kind: ProblemDescriptor) -> None:
    """Print all metrics with their meanings.

    Parameters
    ----------
    metrics : mapping of str to float
        Values by metric name.
    kind : ProblemDescriptor
        Description of the problem, with the meanings of its metrics.
    """
    from desim.formatting import format_value

    rows = [[name, format_value(value), kind.metrics[name].meaning] for name, value in metrics.items()]
    print_table(["metric", "value", "meaning"], rows, words=(2,))
