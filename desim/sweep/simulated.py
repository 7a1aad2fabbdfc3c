"""The runs of a comparison: a problem with its options, an agent, a seed; by name, or as objects of a program."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from desim import own_code, plugins
from desim.cli.output import plain
from desim.core import Agent
from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.problem import Problem, kind_of
from desim.scenario import (
    OwnSystem,
    Scenario,
    measure,
    replay,
    shared_instance,
    system_of,
    workload_digest,
)
from desim.sweep.digest import agent_digest, file_digest, source_digest
from desim.sweep.runner import Run

__all__ = ["Given", "GivenOptions", "GivenSystem", "Named", "System", "simulate_run"]


@dataclass(frozen=True, eq=False)
class GivenOptions:
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
class GivenSystem(OwnSystem):
    """A problem that a program has, or a function of it that makes one, such as ``FUNCTION(rng, **settings)``.

    Attributes
    ----------
    source : Problem or callable
        The problem or the function; a problem is the same with all seeds.
    """

    source: Problem | Callable[..., Any]
    options: ClassVar[type[Any]] = GivenOptions

    def __str__(self) -> str:
        """Name it in messages."""
        return self.name

    def settings(self, options: GivenOptions) -> dict[str, Any]:
        """Return what the function is called with, by name."""
        return dict(options.settings)

    def made(self, rng: np.random.Generator, settings: Mapping[str, Any]) -> Any:
        """Return the problem."""
        if isinstance(self.source, Problem):
            if settings:
                raise InvalidConfiguration(f"{', '.join(settings)}: a problem that is made has no options any more")
            return self.source
        return own_code.own_function(self.name, self.source, rng, **settings)()

    def identity(self, options: GivenOptions) -> dict[str, Any]:
        """Return what tells runs apart."""
        return {
            "source": _content_digest(self.name, self.source),
            "set": _content_digest("options", self.settings(options)),
            "seed": options.seed,
            "until": options.until,
        }


@dataclass(frozen=True)
class System:
    """A problem with its options: the setting of a run.

    Attributes
    ----------
    problem : str or GivenSystem
        By name, or what a program has.
    kind : str
        Whose agents there are.
    options : object
        Those of the problem: workload, seed, system, metrics.
    """

    problem: str | GivenSystem
    kind: str
    options: Any

    def identity(self) -> dict[str, Any]:
        """Return what tells runs apart: files by their content, nothing about metrics, and the code."""
        system = system_of(self.problem)
        modules = ["desim.core", type(system).__module__, *plugins.modules(self.kind)]
        kind = kind_of(self.kind)
        modules += [part.partition(":")[0] for part in (kind.metrics_from, kind.rules_from) if isinstance(part, str)]
        if isinstance(self.problem, GivenSystem):
            own = _modules(self.problem.source)
        else:
            own = [self.problem.partition(":")[0]] if own_code.is_reference(self.problem) else []
        code = source_digest(*modules, *own)
        return {
            "problem": str(self.problem),
            "options": plain(_by_content(system.identity(self.options))),
            "code": code,
        }


@dataclass(frozen=True)
class Named:
    """An agent by its name."""

    policy: str

    def made(self, kind: str) -> Agent:
        """Return the agent, new."""
        return plugins.create_agent(kind, self.policy)

    def identity(self) -> dict[str, Any]:
        """Return what tells it from others: its name, and the code or weights that are no part of desim."""
        return {"policy": self.policy, "code": agent_digest(self.policy)}


@dataclass(frozen=True, eq=False)
class Given:
    """An agent that a program has.

    Attributes
    ----------
    policy : str
        What it is called.
    agent : Agent
        The agent; each run is decided by a copy.
    """

    policy: str
    agent: Agent

    def made(self, kind: str) -> Agent:
        """Return a copy: what one run leaves in an agent must not reach the next."""
        return copy.deepcopy(self.agent)

    def identity(self) -> dict[str, Any]:
        """Return what tells it from others: what is in it, and its code."""
        code = source_digest(*_modules(self.agent))
        return {"policy": self.policy, "content": _content_digest(self.policy, self.agent), "code": code}


def simulate_run(run: Run, out: Path | None) -> dict[str, Any]:
    """Simulate, check and measure.

    Parameters
    ----------
    run : Run
        Of a :class:`System` and an agent, which is :class:`Named` or :class:`Given`.
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
        instance = shared_instance(scenario.problem, scenario.options)
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


def _modules(thing: Any) -> list[str]:
    """Return the module of what an object is made of; what a program or notebook itself defines is in its content."""
    module = getattr(thing, "__module__", None) or type(thing).__module__
    return [] if module == "__main__" else [str(module)]


def _content_digest(name: str, thing: Any) -> str:
    """Return a digest of what is in an object."""
    import cloudpickle

    try:
        return hashlib.sha256(cloudpickle.dumps(thing)).hexdigest()
    except Exception as error:  # whatever an object of the user's own raises
        raise InvalidConfiguration(f"{name} cannot be pickled, which a stored run needs: {error}") from error


def _by_content(value: Any) -> Any:
    """Put digests of files in the place of their paths."""
    if isinstance(value, Path):
        return file_digest(value)
    if isinstance(value, dict):
        return {name: _by_content(part) for name, part in value.items()}
    return [_by_content(part) for part in value] if isinstance(value, list) else value
