"""The runs of a comparison: a problem with its options, an agent, a seed; by name, or as objects of a program."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from desim import plugins, user_code
from desim.cli.output import plain
from desim.core import Agent
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.problem import Problem, kind_of
from desim.scenario import CustomProblem, ProblemInstance, Scenario, measure, replay, system_of, workload_digest
from desim.sweep.digest import agent_digest, file_digest, source_digest
from desim.sweep.runner import Run

__all__ = [
    "AgentByName",
    "AgentByObject",
    "ObjectOptions",
    "ProblemByObject",
    "ProblemSetting",
    "new_mark",
    "shared_instance",
    "simulate_run",
]


@dataclass(frozen=True, eq=False)
class ObjectOptions:
    """What a function that makes problems is called with.

    Attributes
    ----------
    settings : mapping
        Its keyword arguments.
    seed : int
        Of the random generator that it is given, and of the simulation.
    until : float or None
        When runs end, at the latest.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    until: float | None = None


@dataclass(frozen=True, eq=False)
class ProblemByObject(CustomProblem):
    """A problem that a program has, or a function of it that makes one, such as ``FUNCTION(rng, **settings)``.

    Attributes
    ----------
    source : Problem or callable
        The problem or the function; a problem is the same with all seeds.
    """

    source: Problem | Callable[..., Any]
    options: ClassVar[type[Any]] = ObjectOptions

    def __str__(self) -> str:
        """Name it in messages."""
        return self.name

    def settings(self, options: ObjectOptions) -> dict[str, Any]:
        """Return what the function is called with, by name."""
        return dict(options.settings)

    def made(self, rng: np.random.Generator, settings: Mapping[str, Any]) -> Any:
        """Return the problem."""
        if isinstance(self.source, Problem):
            if settings:
                raise InvalidConfiguration(f"{', '.join(settings)}: a problem that is made has no options any more")
            return self.source
        return user_code.load_problem_factory(self.name, self.source, rng, **settings)()

    def identity(self, options: ObjectOptions) -> dict[str, Any]:
        """Return what tells runs apart, as far as that is plain values."""
        return {"seed": options.seed, "until": options.until}


def new_mark() -> str:
    """Return what stands, in the identity of runs, for all that nobody can tell: no other comparison has it."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class ProblemSetting:
    """A problem with its options: the setting of a run.

    Attributes
    ----------
    problem : str or ProblemByObject
        By name, or what a program has.
    kind : str
        Whose agents there are.
    options : object
        Those of the problem: workload, seed, system, metrics.
    mark : str
        The same in all runs of a comparison, see :func:`new_mark`.
    """

    problem: str | ProblemByObject
    kind: str
    options: Any
    mark: str = field(default_factory=new_mark, compare=False, repr=False)

    def identity(self) -> dict[str, Any]:
        """Return what tells runs apart: files by their content, nothing about metrics, and the code.

        Code of a user may use whatever it likes, which nobody can tell: its runs are never found again.
        """
        system = system_of(self.problem)
        kind = kind_of(self.kind)
        modules = [type(system).__module__, *plugins.modules(self.kind)]
        modules += [part.partition(":")[0] for part in (kind.metrics_from, kind.rules_from) if isinstance(part, str)]
        others = set(kind.agents)  # each agent has its own identity
        if system.is_own or not all(map(plugins.is_ours, {*modules} - others)):
            return {"problem": str(self.problem), "mark": self.mark}
        return {
            "problem": str(self.problem),
            "options": plain(_by_content(system.identity(self.options))),
            "code": source_digest("desim.core", *modules),
        }


@dataclass(frozen=True)
class AgentByName:
    """An agent by its name.

    Attributes
    ----------
    policy : str
        What it is called.
    name : str
        What makes it, as ``desim list`` has it.
    kind : str
        Of the problem whose agents it is one of.
    mark : str
        See :func:`new_mark`.
    """

    policy: str
    name: str
    kind: str
    mark: str = field(default_factory=new_mark, compare=False, repr=False)

    def made(self, kind: str) -> Agent:
        """Return the agent, new."""
        return plugins.create_agent(kind, self.name)

    def identity(self) -> dict[str, Any]:
        """Return what tells it from others: its name and its files, or that nobody can tell."""
        files = agent_digest(self.kind, self.name)
        told = {"mark": self.mark} if files is None else {"files": files}
        return {"policy": self.policy, "name": self.name} | told


@dataclass(frozen=True, eq=False)
class AgentByObject:
    """An agent that a program has.

    Attributes
    ----------
    policy : str
        What it is called.
    agent : Agent
        The agent; each run is decided by a copy.
    mark : str
        See :func:`new_mark`.
    """

    policy: str
    agent: Agent
    mark: str = field(default_factory=new_mark, repr=False)

    def made(self, kind: str) -> Agent:
        """Return a copy: what one run leaves in an agent must not reach the next."""
        return copy.deepcopy(self.agent)

    def identity(self) -> dict[str, Any]:
        """Return what tells it from others: nobody can tell what an object will do."""
        return {"policy": self.policy, "mark": self.mark}


def shared_instance(setting: ProblemSetting) -> ProblemInstance:
    """Make what several runs of a comparison simulate.

    Parameters
    ----------
    setting : ProblemSetting
        The problem with its options.

    Returns
    -------
    ProblemInstance
        The same object as in the call before, if that was of the same comparison, with the same options, and if the
        files that these name have the same content.
    """
    try:
        content = json.dumps(plain(_by_content(system_of(setting.problem).identity(setting.options))), sort_keys=True)
    except RecordError:
        content = ""  # whoever reads the file tells what is wrong with it
    return _instance(setting.problem, setting.options, setting.mark, content)


@lru_cache(maxsize=1)
def _instance(problem: str | ProblemByObject, options: Any, mark: str, content: str) -> ProblemInstance:
    return system_of(problem).instance(options)


def simulate_run(run: Run, out: Path | None) -> dict[str, Any]:
    """Simulate, check and measure.

    Parameters
    ----------
    run : Run
        Of a :class:`ProblemSetting` and an agent, which is :class:`AgentByName` or :class:`AgentByObject`.
    out : Path or None
        Where its records are written to.

    Returns
    -------
    dict
        ``metrics``, and the ``metric_options`` that they are of; ``validation``; ``workload``, a digest of what does
        not depend on the agent; ``stalled``, why it has come to nothing, if it has.
    """
    scenario = Scenario(run.setting.problem, run.agent.policy, run.setting.options)
    try:
        instance = shared_instance(run.setting)
        result = replay(scenario, instance, out=out, agent=run.agent.made(instance.kind.name))
        if result.info["status"] == "interrupted":
            raise KeyboardInterrupt
        found = measure(result, scenario, instance)
        return {
            "metrics": found.metrics,
            "metric_options": scenario.metric_options,
            "validation": found.validation,
            "workload": workload_digest(result, instance),
            "stalled": result.info.get("stalled", ""),
        }
    except DesimError as error:
        kind = DesimError if isinstance(error, RecordError) else type(error)  # arguments are not to blame
        raise kind(f"{scenario.agent}, seed {run.seed}: {error}") from error


def _by_content(value: Any) -> Any:
    """Put digests of files in the place of their paths."""
    if isinstance(value, Path):
        return file_digest(value)
    if isinstance(value, dict):
        return {name: _by_content(part) for name, part in value.items()}
    return [_by_content(part) for part in value] if isinstance(value, list) else value
