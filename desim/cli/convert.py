"""``desim convert``: convert workloads and results to other formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from desim import plugins
from desim.checks import check_int
from desim.cli.output import print_text
from desim.cli.run import print_repairs
from desim.cli.targets import check_new_file
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many
from desim.notes import print_note
from desim.reading import suffix_of
from desim.result import Result

__all__ = ["Convert"]

Format = Literal["csv", "batsim-csv", "chrome-trace", "sacct", "taillard"]
#: Formats of workloads, and the problem of each.
_OF_WORKLOADS = {"sacct": "batch", "taillard": "dag"}
#: Suffixes of workflows, task graphs and job shops only.
_DAGS = {".stg", ".jsp", ".sm", ".mm", ".rcp", ".dax", ".xml", ".yml", ".yaml"}
SUFFIXES: dict[str, str] = {"csv": ".csv", "batsim-csv": ".csv", "chrome-trace": ".json"}


@dataclass(frozen=True)
class Convert:
    """Convert a workload, or the records of a run, to another format.

    Examples::

        desim convert KTH.swf.gz kth.json
        desim convert KTH-SP2 kth.csv
        desim convert kth.json kth.parquet
        desim convert KTH-SP2 kth.csv --to sacct
        desim convert workflow.dax graph.stg
        desim convert ta01.jsp taillard.jsp --to taillard
        desim convert easy easy.csv
        desim convert easy jobs.csv --to batsim-csv
        desim convert easy easy.json --to chrome-trace

    Workloads: .swf, .swf.gz (Standard Workload Format), .json, .json.gz (Batsim), .parquet, .csv, .csv.gz (job table,
    or as Slurm's sacct -P). Workflows, if one of the files has another suffix: .stg (task graph), .jsp (job shop,
    standard or Taillard's), .json (WfFormat), .dax, .xml, .yml (Pegasus, only read). A note names what the new
    file does not hold.
    Results: .csv (the job table), Batsim's job table for evalys, or trace events for ui.perfetto.dev.
    """

    source: Annotated[Positional[Path], arg(metavar="IN")]
    """Workload file, name of a fetched log, or directory of a result."""
    target: Annotated[Positional[Path], arg(metavar="OUT")]
    """File to write; its suffix determines the format."""
    to: Annotated[Format | None, arg(help_behavior_hint="(default: csv)")] = None
    """Format for a result; or sacct for jobs, and taillard for a job shop."""
    cores: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: as stated in the file)")] = None
    """Number of cores of the workload's machine."""
    force: bool = False
    """Replace an existing file."""

    def execute(self) -> int:
        """Convert and print what was written."""
        if self.source.is_dir():
            self._convert_result()
        else:
            self._convert_workload()
        return 0

    def _convert_result(self) -> None:
        from desim.export import to_batsim_csv, to_chrome_trace, to_csv

        if self.cores is not None:
            raise InvalidConfiguration("--cores is for workloads; a result already states its number of cores")
        to = "csv" if self.to is None else self.to
        if to in _OF_WORKLOADS:
            raise InvalidConfiguration(f"--to {to} is for workloads, but {self.source} is a directory")
        if self.target.suffix != SUFFIXES[to]:
            hint = "" if self.to else "; for another format use --to batsim-csv or --to chrome-trace"
            raise InvalidConfiguration(f"{self.target}: expected a {SUFFIXES[to]} file for {to}{hint}")
        result = Result.load(self.source)
        check_new_file(self.target, force=self.force)
        write = {"csv": to_csv, "batsim-csv": to_batsim_csv, "chrome-trace": to_chrome_trace}[to]
        write(result, self.target)
        print_text(f"written: {self.target}")

    def _convert_workload(self) -> None:
        is_dag = not _DAGS.isdisjoint((suffix_of(self.source), suffix_of(self.target)))
        problem = "dag" if is_dag else "batch"
        if self.to is not None and _OF_WORKLOADS.get(self.to) != problem:
            what = {"sacct": "jobs", "taillard": "job shops"}.get(self.to)
            wrong = f"is for {what}" if what else f"is for results, but {self.source} is not a directory of one"
            raise InvalidConfiguration(f"--to {self.to} {wrong}")
        check_new_file(self.target, force=self.force)
        provider = plugins.workload_provider(problem)
        num_jobs, lost = self._write_dags(provider) if is_dag else self._write_jobs(provider)
        if lost:
            print_note(f"desim: {self.target} does not hold: {', '.join(lost)}")
        print_text(f"written: {self.target}, {how_many(num_jobs, 'job')}")

    def _write_dags(self, provider: Any) -> tuple[int, tuple[str, ...]]:
        if self.cores is not None:
            raise InvalidConfiguration("--cores is for jobs of a batch system, not for workflows")
        report = provider.WorkflowReport()
        jobs = provider.read_all(str(self.source), report=report)
        print_repairs(report.as_dict())
        executors = provider.executors_of(str(self.source))
        return len(jobs), provider.write(self.target, jobs, executors=executors, taillard=self.to == "taillard")

    def _write_jobs(self, provider: Any) -> tuple[int, tuple[str, ...]]:
        trace = provider.read(str(self.source))  # a name of the catalogue is a text
        print_repairs(trace.report.as_dict())
        cores = trace.num_cores if self.cores is None else check_int("cores", self.cores, least=1)
        header = trace.header if self.cores is None else None
        lost = provider.write(self.target, trace.jobs, num_cores=cores, header=header, sacct=self.to == "sacct")
        if cores is None:
            print_note(
                f"desim: {self.source} does not state the machine's number of cores; {self.target} omits it, too"
            )
        return len(trace.jobs), lost
