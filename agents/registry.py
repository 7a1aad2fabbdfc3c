"""Agents by name, for the command line and for sweeps: create and list the agents of any problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from desim.checks import did_you_mean
from desim.core import Agent
from desim.exceptions import InvalidConfiguration, missing

__all__ = ["Family", "Registry"]


class Family(NamedTuple):
    """A family of agents whose names contain a variable part.

    Attributes
    ----------
    description : str
        One line on what the agents do.
    make : callable
        Function that takes the variable part (written in capitals in the pattern) and returns the agent.
    alone : str
        Variable part of a name that ends before it. Default: empty, the name must contain one.
    """

    description: str
    make: Callable[[str], Agent]
    alone: str = ""


class Registry:
    """The named agents of a problem.

    Parameters
    ----------
    problem : str
        Name of the problem, such as ``"batch"``.
    agents : mapping of str to (str, callable)
        Maps each name to one line on what the agent does and a function that creates it.
    families : mapping of str to Family
        Maps each name pattern, such as ``"easy-PRIORITY"``, to its family: a fixed prefix, then capitals.
    remarks : mapping of str to str
        Extra lines for the list of agents, on parts of names.
    """

    def __init__(
        self,
        problem: str,
        agents: Mapping[str, tuple[str, Callable[[], Agent]]],
        families: Mapping[str, Family],
        remarks: Mapping[str, str] | None = None,
    ) -> None:
        self._problem = problem
        self._agents = agents
        self._families = families
        self._remarks = remarks or {}
        beginnings = {re.split("[A-Z]", pattern, maxsplit=1)[0]: family for pattern, family in families.items()}
        self._beginnings = dict(sorted(beginnings.items(), key=lambda pair: -len(pair[0])))

    def create(self, name: str) -> Agent:
        """Return a new agent.

        Parameters
        ----------
        name : str
            A name that :func:`descriptions` lists.

        Returns
        -------
        Agent
            A new agent. Its ``name``, which records store, creates the same agent again.

        Raises
        ------
        InvalidConfiguration
            If the name is unknown.
        MissingDependency
            If the agent needs a package that is not installed.
        """
        try:
            return self._created(name)
        except ModuleNotFoundError as error:  # only some families need optional packages
            raise missing(f"agent {name}", error) from error

    def _created(self, name: str) -> Agent:
        if name in self._agents:
            return self._agents[name][1]()
        family, rest = self._family(name)
        return family.make(rest)

    def _family(self, name: str) -> tuple[Family, str]:
        """Return the family of an agent and the variable part of its name."""
        for beginning, family in self._beginnings.items():
            if name.startswith(beginning) and name != beginning:
                return family, name.removeprefix(beginning)
            if family.alone and name == beginning[:-1]:
                return family, family.alone
        known = ", ".join([*self._agents, *self._families])
        near = did_you_mean(name, self._near(name))
        raise InvalidConfiguration(
            f"unknown {self._problem} agent {name!r}{near}; expected one of {known}; "
            f"try `desim list {self._problem}`, which describes them"
        )

    def _near(self, name: str) -> list[str]:
        """Return candidates for a mistyped name: full names, and family prefixes with the name's variable part."""
        found = [*self._agents, *(start[:-1] for start, family in self._beginnings.items() if family.alone)]
        for start in self._beginnings:
            _, separator, rest = name.partition(start[-1])
            found += [f"{start}{rest}"] if separator and rest else []
        return found

    def descriptions(self) -> dict[str, str]:
        """Return every name or name pattern with one line on what the agent does.

        Returns
        -------
        dict of str to str
            Maps names to descriptions, in the order of the list.
        """
        lines = {name: text for name, (text, _) in self._agents.items()}
        return lines | {pattern: family.description for pattern, family in self._families.items()} | dict(self._remarks)
