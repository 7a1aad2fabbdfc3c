"""``desim validate``: an independent check of a stored run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from desim.cli.options import JsonFlag
from desim.cli.output import print_json, print_text
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.options import SiteOptions, WorkloadOptions, load_workload
from desim.result import Result
from desim.scenario import validation_document

__all__ = ["Validate"]


@dataclass(frozen=True)
class Validate:
    """Check the records of a run by rules that share no code with the simulator.

    Examples::

        desim validate easy
        desim validate sjf --trace KTH-SP2-1996-2.swf.gz
        desim validate easy --trace lublin --jobs 5000 --load 0.9

    With the workload that was simulated, the check covers that no job was lost, invented or changed.
    Exit status 1 tells that a rule is broken.
    """

    directory: Annotated[Positional[Path], arg(metavar="DIR")]
    """The result."""
    trace: Annotated[str | None, arg(metavar="FILE|lublin", help_behavior_hint="(default: not compared)")] = None
    """The workload that was simulated, with the next five options as they were for the run."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: as for desim run)")] = None
    """How many jobs were generated, or the most that were read."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Seed of a generated workload."""
    load: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: as it is)")] = None
    """The offered load that was asked for."""
    overestimate: Annotated[float, arg(metavar="X")] = 1.0
    """The largest overestimate of run times that was asked for."""
    nodes: Annotated[
        str | None, arg(metavar="FILE|COUNTxCORES,...|log", help_behavior_hint="(default: as for desim run)")
    ] = None
    """The nodes that were simulated: a job table then says what its jobs request."""
    dependencies: Annotated[
        Literal["drop", "keep", "users", "sequential"] | None, arg(help_behavior_hint="(default: as for desim run)")
    ] = None
    """What jobs came after, as for desim run."""
    session_gap: Annotated[float, arg(metavar="S")] = 1_200.0
    """The longest think time within a session of a user."""
    users: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: as for desim run)")] = None
    """How many users jobs were dealt to."""
    moldable: Annotated[float | None, arg(metavar="SIGMA", help_behavior_hint="(default: as for desim run)")] = None
    """Sigma of the speedup of moldable jobs."""
    stop_after: Annotated[int, arg(metavar="N")] = 20
    """How many violations of each rule to describe."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Check; 1 if a rule is broken."""
        from desim.validation import validate

        result = Result.load(self.directory)
        if result.info.get("status") == "running":
            raise InvalidConfiguration(f"{self.directory} has no end: its run is still going on, or broke off")
        jobs = None
        if self.trace is not None:
            problem = result.info.get("problem")
            if problem != "batch":
                raise InvalidConfiguration(f"--trace is for batch, but {self.directory} is a result of {problem}")
            cores = result.info["num_cores"]
            drawn = self.jobs, self.seed, self.load, self.overestimate
            options = WorkloadOptions(self.trace, cores, *drawn, nodes=self.nodes)
            site = SiteOptions(
                dependencies=self.dependencies, session_gap=self.session_gap, users=self.users, moldable=self.moldable
            )
            jobs = load_workload(options, site).jobs
        report = validate(result, jobs, stop_after=self.stop_after)
        if self.as_json:
            print_json({"records": self.directory, **validation_document(report)})
        else:
            print_text(str(report), "" if report.ok else "bold red")
        return 0 if report.ok else 1
