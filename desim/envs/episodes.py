"""Where the problems of episodes come from, and parts of environments by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from desim.envs.base import Episodes
from desim.exceptions import InvalidConfiguration
from desim.problem import Problem

__all__ = ["DrawnEpisodes", "episodes_of", "named"]

Part = TypeVar("Part")


class DrawnEpisodes:
    """Episodes that are taken from some problems, each equally likely.

    Parameters
    ----------
    problems : sequence of Problem
        At least one; none with a workload that can be read only once.

    Raises
    ------
    InvalidConfiguration
        If there are none, or a workload is an iterator.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise InvalidConfiguration("there is no problem to draw episodes from")
        for problem in problems:
            problem.check_replayable()
        self.problems = problems

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Return one of the problems."""
        return self.problems[int(rng.integers(len(self.problems)))]


def episodes_of(workload: Sequence[Problem] | Episodes) -> Episodes:
    """Return what makes the problems of episodes.

    Parameters
    ----------
    workload : sequence of Problem, or callable
        What episodes are drawn from, or already what makes them from a random generator.

    Returns
    -------
    callable
        Called with a random generator.

    Raises
    ------
    InvalidConfiguration
        As for :class:`DrawnEpisodes`.
    """
    return workload if callable(workload) else DrawnEpisodes(workload)


def named(what: str, given: str | Part, choices: Mapping[str, Callable[[], Part]]) -> Part:
    """Return a part of an environment by its name; what is no name is returned as it is.

    Parameters
    ----------
    what : str
        What kind of part it is, for the message.
    given : str or object
        A name, or the part itself.
    choices : mapping of str to callable
        What makes each part, by name.

    Returns
    -------
    object
        The part.

    Raises
    ------
    InvalidConfiguration
        If there is none of this name.
    """
    if not isinstance(given, str):
        return given
    if given not in choices:
        raise InvalidConfiguration(f"no {what} {given!r}; there are {', '.join(choices)}")
    return choices[given]()
