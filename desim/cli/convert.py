"""``desim convert``: convert workloads and results to other formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from desim import plugins
from desim.checks import check_int
from desim.cli.output import print_text
from desim.cli.run import print_repairs
from desim.cli.targets import check_new_file
from desim.exceptions import InvalidConfiguration
from desim.formatting import how_many
from desim.notes import print_note
from desim.result import Result

__all__ = ["Convert"]

Format = Literal["csv", "batsim-csv", "chrome-trace"]
SUFFIXES: dict[str, str] = {"csv": ".csv", "batsim-csv": ".csv", "chrome-trace": ".json"}


@dataclass(frozen=True)
class Convert:
    """Convert a workload, or the records of a run, to another format.

    Examples::

        desim convert KTH.swf.gz kth.json
        desim convert KTH-SP2 kth.csv
        desim convert kth.json kth.parquet
        desim convert easy easy.csv
        desim convert easy jobs.csv --to batsim-csv
        desim convert easy easy.json --to chrome-trace

    Workloads: .swf, .swf.gz (Standard Workload Format), .json, .json.gz (Batsim), .parquet, .csv, .csv.gz (job table).
    Results: .csv (the job table), Batsim's job table for evalys, or trace events for ui.perfetto.dev.
    """

    source: Annotated[Positional[Path], arg(metavar="IN")]
    """Workload file, name of a fetched log, or directory of a result."""
    target: Annotated[Positional[Path], arg(metavar="OUT")]
    """File to write; its suffix determines the format."""
    to: Annotated[Format | None, arg(help_behavior_hint="(default: csv)")] = None
    """Format for a result."""
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
        if self.target.suffix != SUFFIXES[to]:
            hint = "" if self.to else "; for another format use --to batsim-csv or --to chrome-trace"
            raise InvalidConfiguration(f"{self.target}: expected a {SUFFIXES[to]} file for {to}{hint}")
        result = Result.load(self.source)
        check_new_file(self.target, force=self.force)
        write = {"csv": to_csv, "batsim-csv": to_batsim_csv, "chrome-trace": to_chrome_trace}[to]
        write(result, self.target)
        print_text(f"written: {self.target}")

    def _convert_workload(self) -> None:
        if self.to is not None:
            raise InvalidConfiguration(f"--to {self.to} is for results, but {self.source} is not a directory of one")
        check_new_file(self.target, force=self.force)
        provider = plugins.workload_provider("batch")
        trace = provider.read(str(self.source))  # a name of the catalogue is a text
        print_repairs(trace.report.as_dict())
        cores = trace.num_cores if self.cores is None else check_int("cores", self.cores, least=1)
        header = trace.header if self.cores is None else None
        provider.write(self.target, trace.jobs, num_cores=cores, header=header)
        if cores is None:
            print_note(
                f"desim: {self.source} does not state the machine's number of cores; {self.target} omits it, too"
            )
        print_text(f"written: {self.target}, {how_many(len(trace.jobs), 'job')}")
