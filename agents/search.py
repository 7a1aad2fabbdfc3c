"""What the search agents of all problems share: their budget, their names, and the compiler of their decoders.

A search agent keeps a plan for the jobs that it knows, decodes changed plans as the simulator would carry them out,
keeps the better one, and answers with what the best plan does now.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar, cast

from desim.checks import check_choice, check_float, check_int
from desim.exceptions import InvalidConfiguration, MissingDependency

__all__ = ["Budget", "SearchName", "compiled", "decoders"]

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Budget:
    """How long a search may go on at each decision.

    Attributes
    ----------
    moves : int or None
        Changed plans that are decoded at most. With moves alone, one seed gives one result.
    seconds : float or None
        Time on the clock at most; what is found then depends on the machine.

    Raises
    ------
    InvalidConfiguration
        If neither is given, or one is out of range.
    """

    moves: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Check the limits."""
        if self.moves is None and self.seconds is None:
            raise InvalidConfiguration("a search needs a budget of moves or of seconds")
        if self.moves is not None:
            check_int("moves", self.moves, least=0)
        if self.seconds is not None:
            check_float("seconds", self.seconds, above=0)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Return the budget of a name's part.

        Parameters
        ----------
        text : str
            Moves such as ``"300"``, or seconds such as ``"0.1s"``.

        Returns
        -------
        Budget
            What it says.

        Raises
        ------
        InvalidConfiguration
            If it is neither.
        """
        if text.isdecimal():
            return cls(moves=int(text))
        if re.fullmatch(r"\d*\.?\d+s", text):
            return cls(seconds=float(text[:-1]))
        raise InvalidConfiguration(f"no budget {text!r}; want moves such as 300, or seconds such as 0.1s")

    def __str__(self) -> str:
        """Return the text that :meth:`parse` reads, which has one of the two limits."""
        return f"{self.seconds:g}s" if self.moves is None else str(self.moves)

    @property
    def most_moves(self) -> float:
        """How many moves there may be, infinitely many if time alone counts."""
        return math.inf if self.moves is None else self.moves


@dataclass(frozen=True)
class SearchName:
    """A search agent's name: ``search:PROBLEM``, ``search:PROBLEM:OBJECTIVE``, ``search:PROBLEM:OBJECTIVE:BUDGET``.

    Where a search may begin with the plan of another agent, that one's name stands behind the budget.

    Attributes
    ----------
    problem : str
        Such as ``"batch"``.
    objective : str
        What is to be small.
    budget : Budget
        How long to search at each decision.
    guide : str
        Whose plan it begins with, too; empty for none.
    """

    problem: str
    objective: str
    budget: Budget
    guide: str = ""

    @classmethod
    def parse(
        cls, problem: str, rest: str, objectives: Sequence[str], budget: Budget, *, guided: bool = False
    ) -> SearchName:
        """Return what a name says.

        Parameters
        ----------
        problem : str
            Such as ``"batch"``.
        rest : str
            What stands behind ``search:``; the problem comes first.
        objectives : sequence of str
            What there is to choose from, the default first.
        budget : Budget
            That of names that tell none.
        guided : bool
            Whether there may be a guide.

        Returns
        -------
        SearchName
            Its parts.

        Raises
        ------
        InvalidConfiguration
            If a part is unknown.
        """
        name, *parts = rest.split(":", 3) if guided else rest.split(":")
        if name != problem or len(parts) > 2 + guided:
            raise InvalidConfiguration(
                f"no {problem} agent 'search:{rest}'; want for example search:{problem}:{objectives[0]}:{budget}"
            )
        objective = check_choice("objective", parts[0] if parts else objectives[0], objectives)
        return cls(problem, objective, Budget.parse(parts[1]) if len(parts) > 1 else budget, "".join(parts[2:]))

    def __str__(self) -> str:
        """Return the name in full."""
        return ":".join(("search", self.problem, self.objective, str(self.budget), *filter(None, (self.guide,))))


def compiled(function: Function, *, allocates: bool = True) -> Function:
    """Have a function compiled by numba when it is first called, and the outcome kept on disk.

    Parameters
    ----------
    function : callable
        What numba understands.
    allocates : bool
        Whether it may make arrays. Where it makes none, and calls none that does, nobody need count who uses an array:
        that takes most of the time of short functions of many arrays.

    Returns
    -------
    callable
        The same to callers; the original is its attribute ``py_func``.
    """
    import numba

    compiler = cast(Any, numba.njit)  # whose types leave out _nrt, the counting of references
    return cast(Function, compiler(cache=True, _nrt=allocates)(function))


def decoders(module: str) -> ModuleType:
    """Return a module of compiled decoders; it is imported when the first search agent is made.

    Parameters
    ----------
    module : str
        Its full name.

    Returns
    -------
    module
        Which imports numba.

    Raises
    ------
    MissingDependency
        If numba is not installed.
    """
    try:
        importlib.import_module("numba")
    except ImportError as error:
        raise MissingDependency(f"search agents need numba: pip install 'desim[search]' ({error})") from error
    return importlib.import_module(module)
