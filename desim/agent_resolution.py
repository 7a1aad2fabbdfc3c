"""What is passed to a simulation: whether a problem and an agent can meet, one sentence for whatever is mistaken."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from desim.checks import short_repr
from desim.core import Agent
from desim.exceptions import InvalidConfiguration
from desim.plugins import create_agent
from desim.problem import Problem, kinds

__all__ = ["resolve_agent"]


def resolve_agent(problem: Any, agent: Any) -> Agent:
    """Return the agent of a run, made if it is given by its name.

    Parameters
    ----------
    problem : object
        What is to be simulated.
    agent : object
        What is to decide, or its name as ``desim list`` has it.

    Returns
    -------
    Agent
        The agent.

    Raises
    ------
    InvalidConfiguration
        If the first is no problem, the second no agent, or they do not belong together.
    """
    if not isinstance(problem, Problem):
        raise InvalidConfiguration(_no_problem(problem, agent))
    if isinstance(agent, str):
        return create_agent(problem.name, agent)
    if isinstance(agent, type) or not callable(getattr(agent, "act", None)):
        raise InvalidConfiguration(_no_agent(agent))
    home, name = _home(type(agent).__module__), type(agent).__name__
    if home and home not in _names(type(problem)) and problem.name in kinds():
        raise InvalidConfiguration(
            f"{name} is an agent for problem {home!r}, but the problem is {type(problem).__name__}, of {problem.name!r}"
        )
    found: Agent = agent
    return found


def _no_problem(problem: Any, agent: Any) -> str:
    """Say what stands where a problem should."""
    if isinstance(agent, Problem):
        return f"the problem comes first: simulate(problem, agent), not simulate({short_repr(problem)}, problem)"
    if isinstance(problem, type):
        return f"the problem is the class {problem.__name__}, want an object: {problem.__name__}(...)"
    if isinstance(problem, str):
        return f"the problem is the name {problem!r}, want an object; names are for `desim run {problem}`"
    return f"the problem is {short_repr(problem)}, want a desim.Problem, such as BatchCluster(jobs, num_cores)"


def _no_agent(agent: Any) -> str:
    """Say what stands where an agent should."""
    if isinstance(agent, type):
        return f"the agent is the class {agent.__name__}, want an object: {agent.__name__}({_arguments(agent)})"
    if callable(agent):
        return f"the agent is the function {short_repr(agent)}, want an object with a method act(observation)"
    if isinstance(agent, Problem):
        return "the agent is a problem, want simulate(problem, agent)"
    return f"the agent is {short_repr(agent)}, want a name such as 'fcfs', or an object with a method act(observation)"


def _arguments(agent: type) -> str:
    """Return dots if a class needs arguments."""
    try:
        inspect.signature(agent).bind()
    except (TypeError, ValueError):
        return "..."
    return ""


@cache
def _home(module: str) -> str:
    """Return the kind of problem in whose package of agents a module is; empty if in none."""
    for name, kind in kinds().items():
        for entry in kind.agents:
            package = entry.removesuffix(".registry")
            if package != "desim.agents" and f"{module}.".startswith(f"{package}."):
                return name
    return ""


def _names(problem: type) -> frozenset[str]:
    """Return the names of a class of problems and of those that it is derived from."""
    return frozenset(vars(base)["name"] for base in problem.__mro__ if "name" in vars(base))
