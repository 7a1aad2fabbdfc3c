"""Resolution of the arguments of a simulation: problem and agent, with one clear sentence for each mistake."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from desim.checks import short_repr
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.plugins import create_agent
from desim.problem import Problem, kind_named, kinds

__all__ = ["resolve_agent"]


def resolve_agent(problem: Any, agent: Any) -> Agent:
    """Return the agent of a run, created if it is given by name.

    Parameters
    ----------
    problem : object
        Problem to simulate.
    agent : object
        Agent, or its name in ``desim list``.

    Returns
    -------
    Agent
        The agent.

    Raises
    ------
    InvalidConfiguration
        If the first argument is not a problem, the second is not an agent, or the agent is for another problem.
    """
    if not isinstance(problem, Problem):
        raise InvalidConfiguration(_no_problem(problem, agent))
    if isinstance(agent, str):
        return create_agent(problem.name, agent)
    if isinstance(agent, type) or not callable(getattr(agent, "act", None)):
        raise InvalidConfiguration(_no_agent(agent))
    module, name, names = type(agent).__module__, type(agent).__name__, _names(type(problem))
    is_known = any(_is_of(module, of) for of in sorted(names))  # without importing other problems
    if not is_known and (home := _home(module)) and home not in names and problem.name in kinds():
        raise InvalidConfiguration(
            f"{name} is an agent for problem {home!r}, but the problem is {type(problem).__name__}, of {problem.name!r}"
        )
    found: Agent = agent
    return found


def _no_problem(problem: Any, agent: Any) -> str:
    """Return a message about an argument that is not a problem."""
    if isinstance(agent, Problem):
        return f"problem: got an agent; try simulate(problem, agent), not simulate({short_repr(problem)}, problem)"
    if isinstance(problem, type):
        return f"problem: got the class {problem.__name__}, expected an instance; try {problem.__name__}(...)"
    if isinstance(problem, str):
        return f"problem: got the name {problem!r}, expected an object; names are for `desim run {problem}`"
    return f"problem: got {short_repr(problem)}, expected a desim.Problem, such as BatchCluster(jobs, num_cores)"


def _no_agent(agent: Any) -> str:
    """Return a message about an argument that is not an agent."""
    if isinstance(agent, type):
        return f"agent: got the class {agent.__name__}, expected an instance; try {agent.__name__}({_arguments(agent)})"
    if callable(agent):
        return f"agent: got the function {short_repr(agent)}, expected an object with a method act(observation)"
    if isinstance(agent, Problem):
        return "agent: got a problem; try simulate(problem, agent)"
    return (
        f"agent: got {short_repr(agent)}, expected a name such as 'fcfs', or an object with a method act(observation)"
    )


def _arguments(agent: type) -> str:
    """Return an ellipsis if a class needs arguments, otherwise an empty string."""
    try:
        inspect.signature(agent).bind()
    except (TypeError, ValueError):
        return "..."
    return ""


@cache
def _home(module: str) -> str:
    """Return the problem whose package of agents contains a module; empty if none does."""
    return next((name for name in kinds() if _is_of(module, name)), "")


@cache
def _is_of(module: str, problem: str) -> bool:
    """Return whether a module is in a package of agents of a problem."""
    packages = (entry.removesuffix(".registry") for entry in getattr(kind_named(problem), "agents", ()))
    return any(one != "desim.agents" and f"{module}.".startswith(f"{one}.") for one in packages)


def _names(problem: type) -> frozenset[str]:
    """Return the problem names of a class and of its base classes."""
    return frozenset(vars(base)["name"] for base in problem.__mro__ if "name" in vars(base))
