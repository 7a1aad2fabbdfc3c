"""Agents by name, for the command line and for sweeps: one way to make and to list them, for all problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from desim.checks import did_you_mean
from desim.core import Agent
from desim.exceptions import InvalidConfiguration, missing

__all__ = ["Family", "Registry"]


def _no_files(rest: str) -> tuple[Path, ...]:
    return ()


class Family(NamedTuple):
    """Agents with a part in their names that one chooses.

    Attributes
    ----------
    description : str
        What they do, in a line.
    make : callable
        Returns the agent of what stands where the pattern has capitals.
    alone : str
        What stands there if the name ends before it; by default there is no such name.
    files : callable
        Returns the files that the agent of what stands there is made of, see :meth:`Registry.files`; by default none.
    """

    description: str
    make: Callable[[str], Agent]
    alone: str = ""
    files: Callable[[str], tuple[Path, ...] | None] = _no_files


class Registry:
    """The agents of a problem.

    Parameters
    ----------
    problem : str
        Such as ``"batch"``.
    agents : mapping of str to (str, callable)
        By name: what the agent does, in a line, and what makes a new one.
    families : mapping of str to Family
        By the pattern of their names, such as ``"easy-PRIORITY"``: it begins as they do, and goes on in capitals.
    remarks : mapping of str to str
        Lines on parts of names, for the list.
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
            One that :func:`descriptions` lists.

        Returns
        -------
        Agent
            Its ``name``, which records hold, makes the same agent again.

        Raises
        ------
        InvalidConfiguration
            If there is no such agent.
        MissingDependency
            If a package is not installed that it needs.
        """
        try:
            return self._created(name)
        except ModuleNotFoundError as error:  # a family that needs packages which others do not
            raise missing(f"agent {name}", error) from error

    def _created(self, name: str) -> Agent:
        if name in self._agents:
            return self._agents[name][1]()
        family, rest = self._family(name)
        return family.make(rest)

    def files(self, name: str) -> tuple[Path, ...] | None:
        """Return the files that an agent is made of besides code, such as its weights.

        Parameters
        ----------
        name : str
            One that :func:`create` knows.

        Returns
        -------
        tuple of Path or None
            Whoever has the same files has the same agent. None if that is not certain, since it runs code of a user.

        Raises
        ------
        InvalidConfiguration
            If there is no such agent.
        """
        if name in self._agents:
            return ()
        family, rest = self._family(name)
        return family.files(rest)

    def _family(self, name: str) -> tuple[Family, str]:
        """Return the family of an agent, and what its name chooses."""
        for beginning, family in self._beginnings.items():
            if name.startswith(beginning) and name != beginning:
                return family, name.removeprefix(beginning)
            if family.alone and name == beginning[:-1]:
                return family, family.alone
        known = ", ".join([*self._agents, *self._families])
        near = did_you_mean(name, self._near(name))
        raise InvalidConfiguration(f"no {self._problem} agent {name!r}{near}; there are {known}")

    def _near(self, name: str) -> list[str]:
        """Return what a name could have meant: names, and beginnings of names that go on as it does."""
        found = [*self._agents, *(start[:-1] for start, family in self._beginnings.items() if family.alone)]
        for start in self._beginnings:
            _, separator, rest = name.partition(start[-1])
            found += [f"{start}{rest}"] if separator and rest else []
        return found

    def descriptions(self) -> dict[str, str]:
        """Return every name, or pattern of names, with a line on what the agent does.

        Returns
        -------
        dict of str to str
            In the order in which they are listed.
        """
        lines = {name: text for name, (text, _) in self._agents.items()}
        return lines | {pattern: family.description for pattern, family in self._families.items()} | dict(self._remarks)
