"""Problems of the user's own on the command line: ``module:name`` of a function that makes one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

from tyro.conf import UseAppendAction, arg

from desim import own_code
from desim.cli.settings import settings_of
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.plotting._presentations import PRESENTATIONS, Presentation, presentation_of
from desim.problem import Problem
from desim.scenario import Instance, Seed, SeededSystem, Steps, Until, generator, rereadable

__all__ = ["OwnOptions", "OwnSystem"]

#: Where problems keep what a run is checked against, and the event that their runs progress by.
PARTS = {
    "batch": ("jobs", "completion", "jobs"),
    "dag": ("jobs", "job_completion", "jobs"),
    "deferrable": ("jobs", "slot", "slots"),
    "multiserver": ("arrivals", "slot", "slots"),
}


@dataclass(frozen=True)
class OwnOptions:
    """What the function is called with."""

    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """A keyword argument of the function; may be given several times."""
    seed: Seed = 0
    """Seed of the random generator that the function is given, and of the simulation."""
    until: Until = None
    """End the run at this time."""


@dataclass(frozen=True)
class OwnSystem(SeededSystem):
    """A problem of your own: FUNCTION(rng, **settings) returns a desim.Problem.

    It is called with numpy.random.default_rng(seed) for each seed, and with the settings of --set, and must draw all
    that is random in the workload from that generator: so all agents meet the same. The problem may be one of desim's,
    with a workload of your own, or of a class of your own. The latter needs a method measure(result), which returns
    metrics by name as numbers; its attribute better, a mapping of their names to "lower" or "higher", says which values
    are better, and the first of them comes first in tables. Of other problems, these metrics come in addition.
    """

    name: str
    kind: ClassVar[str | None] = None
    default_agent: ClassVar[str | None] = None
    options: ClassVar[type[Any]] = OwnOptions

    @property
    def description(self) -> str:
        """What it is, in a line."""
        return f"What {self.name} makes."

    def instance(self, options: OwnOptions) -> Instance:
        """Return what is simulated."""
        settings = settings_of(options.set)
        rng = generator(options.seed)
        problem = own_code.own_function(self.name, own_code.load(self.name), rng, **settings)()
        if not isinstance(problem, Problem):
            raise InvalidConfiguration(f"{self.name} returns {problem!r}, want a desim.Problem")
        if problem.name not in PRESENTATIONS and not callable(getattr(problem, "measure", None)):
            made = type(problem).__name__
            raise InvalidConfiguration(
                f"{self.name}: desim has no metrics for problem {problem.name!r}: give {made} a method measure(result) "
                f"that returns some by name"
            )
        attribute, event, unit = PARTS.get(problem.name, ("", "", ""))
        workload = rereadable(getattr(problem, attribute, None)) if attribute else None
        problem.check_replayable()
        size = ", ".join(f"{name} = {value}" for name, value in settings.items())
        return Instance(
            name=self.name,
            size=size or f"a problem of the kind {problem.name}",
            place=self.name,
            options=options,
            presentation=_presentation(self.name, problem),
            make=partial(_made, problem),
            workload=workload,
            steps=Steps(event, unit) if event else None,
            until=math.inf if options.until is None else options.until,
            facts={"kind": problem.name, "settings": settings},
            measure=getattr(problem, "measure", None),
        )

    def identity(self, options: OwnOptions) -> dict[str, Any]:
        """Return what tells runs apart."""
        return {"set": settings_of(options.set), "seed": options.seed, "until": options.until}


def _presentation(name: str, problem: Problem) -> Presentation:
    """Return what is known of the results, with what the problem says of its own metrics."""
    better = dict(getattr(problem, "better", {}))
    wrong = [value for value in better.values() if value not in ("lower", "higher", None)]
    if wrong:
        raise InvalidConfiguration(f"{name}: better holds {wrong[0]!r}, want 'lower' or 'higher'")
    known = presentation_of(problem.name)
    return replace(
        known,
        headline=(*better, *known.headline)[:6],
        main=(*better, *known.main),
        kinds={**known.kinds, **{metric: ("", direction) for metric, direction in better.items()}},
    )


def _made(problem: Problem, agent: Agent) -> Problem:
    return problem
