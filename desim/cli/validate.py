"""``desim validate``: check a stored run independently of the simulator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from desim.cli.options import JsonFlag
from desim.cli.output import print_json, print_text
from desim.exceptions import InvalidConfiguration
from desim.problems.batch import Workload
from desim.problems.batch.options import SiteOptions, WorkloadOptions, load_workload
from desim.problems.batch.windows import Window, part_of
from desim.result import Result
from desim.scenario import Duration, validation_document

__all__ = ["Validate"]


@dataclass(frozen=True)
class Validate:
    """Check the records of a run by rules that share no code with the simulator.

    Examples::

        desim validate easy
        desim validate sjf --trace KTH-SP2-1996-2.swf.gz
        desim validate easy --trace lublin --jobs 5000 --load 0.9

    Given the simulated workload, of which a run may be a window, the check also covers that no job was lost, invented
    or changed. Exit status 1 means that a rule is violated.
    """

    directory: Annotated[Positional[Path], arg(metavar="DIR")]
    """Directory of the result."""
    workload: WorkloadOptions = field(default_factory=lambda: WorkloadOptions(trace=""))
    """Simulated workload, with the workload options of the run; without --trace nothing is compared with it."""
    dependencies: Annotated[
        Literal["drop", "keep", "users", "sequential"] | None, arg(help_behavior_hint="(default: as for desim run)")
    ] = None
    """Job dependencies, as for desim run."""
    session_gap: Duration = 1_200.0
    """Longest think time within a user session, in seconds."""
    users: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: as for desim run)")] = None
    """Number of users that generated jobs were assigned to."""
    moldable: Annotated[float | None, arg(metavar="SIGMA", help_behavior_hint="(default: as for desim run)")] = None
    """Sigma of Downey's speedup model of moldable jobs."""
    stop_after: Annotated[int, arg(metavar="N")] = 20
    """Number of violations to describe per rule."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Check the run; return 1 if a rule is violated."""
        from desim.validation import validate

        result = Result.load(self.directory)
        if result.info.get("status") == "running":
            raise InvalidConfiguration(f"{self.directory}: the run has not ended; it is still going on or was killed")
        jobs = None
        if self.workload.trace:
            problem = result.info.get("problem")
            if problem != "batch":
                raise InvalidConfiguration(f"--trace is for batch, but {self.directory} is a result of {problem}")
            options = replace(self.workload, cores=self.workload.cores or result.info["num_cores"])
            names = ("dependencies", "session_gap", "users", "moldable")
            site = SiteOptions(**{name: getattr(self, name) for name in names if hasattr(SiteOptions, name)})
            jobs = load_workload(options, site).jobs
            if "window" in result.info:
                jobs = part_of(Workload.of(jobs), Window(*result.info["window"]))
        report = validate(result, jobs, stop_after=self.stop_after)
        if self.as_json:
            print_json({"records": self.directory, **validation_document(report)})
        else:
            print_text(str(report), "" if report.ok else "bold red")
        return 0 if report.ok else 1
