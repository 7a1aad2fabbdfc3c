"""Shared parts of the search agents of all problems: budget, names, and compiled decoders.

A search agent keeps a plan for the jobs it knows. It changes the plan, decodes the changed plan as the simulator would
carry it out, keeps the better plan, and returns the best plan's action for the current decision.
"""

from __future__ import annotations

import importlib
import math
import re
import time
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
    """Limit on the search at each decision.

    Attributes
    ----------
    moves : int or None
        Largest number of changed plans to decode. With a limit on moves alone, the same seed gives the same result.
    seconds : float or None
        Largest processor time of the searching thread, in seconds; results then depend on the machine.

    Raises
    ------
    InvalidConfiguration
        If both are None, or one is out of range.
    """

    moves: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Check the limits."""
        if self.moves is None and self.seconds is None:
            raise InvalidConfiguration("budget: got neither moves nor seconds, expected at least one of them")
        if self.moves is not None:
            check_int("moves", self.moves, least=0)
        if self.seconds is not None:
            check_float("seconds", self.seconds, above=0)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Return the budget that a part of an agent's name describes.

        Parameters
        ----------
        text : str
            Number of moves such as ``"300"``, or seconds such as ``"0.1s"``.

        Returns
        -------
        Budget
            The parsed budget.

        Raises
        ------
        InvalidConfiguration
            If the text is neither.
        """
        if text.isdecimal():
            return cls(moves=int(text))
        if re.fullmatch(r"\d*\.?\d+s", text):
            return cls(seconds=float(text[:-1]))
        raise InvalidConfiguration(f"budget: got {text!r}, expected moves such as 300 or seconds such as 0.1s")

    def __str__(self) -> str:
        """Return the text that :meth:`parse` reads: the moves if they are limited, otherwise the seconds."""
        return f"{self.seconds:g}s" if self.moves is None else str(self.moves)

    @property
    def most_moves(self) -> float:
        """The largest number of moves; infinite if only the time is limited."""
        return math.inf if self.moves is None else self.moves

    def timer(self) -> Callable[[], float]:
        """Return a function that returns the share of ``seconds`` used since this call: 0 if they are not limited."""
        if self.seconds is None:
            return lambda: 0.0
        begin, seconds = time.thread_time(), self.seconds
        return lambda: (time.thread_time() - begin) / seconds


@dataclass(frozen=True)
class SearchName:
    """A search agent's name: ``search:PROBLEM``, ``search:PROBLEM:OBJECTIVE``, ``search:PROBLEM:OBJECTIVE:BUDGET``.

    Some searches can also start from the plan of another agent (the guide), whose name follows the budget.

    Attributes
    ----------
    problem : str
        Name of the problem, such as ``"batch"``.
    objective : str
        Name of the quantity to minimize.
    budget : Budget
        Limit on the search at each decision.
    guide : str
        Name of the agent whose plan is an additional starting point; empty for none.
    """

    problem: str
    objective: str
    budget: Budget
    guide: str = ""

    @classmethod
    def parse(
        cls, problem: str, rest: str, objectives: Sequence[str], budget: Budget, *, guided: bool = False
    ) -> SearchName:
        """Return the parts of an agent's name.

        Parameters
        ----------
        problem : str
            Name of the problem, such as ``"batch"``.
        rest : str
            Text after ``search:``, which begins with the problem.
        objectives : sequence of str
            Names of the possible objectives, the default first.
        budget : Budget
            Budget of names without one.
        guided : bool
            Whether the name may contain a guide.

        Returns
        -------
        SearchName
            The parsed name.

        Raises
        ------
        InvalidConfiguration
            If a part is unknown.
        """
        name, *parts = rest.split(":", 3) if guided else rest.split(":")
        if name != problem or len(parts) > 2 + guided:
            raise InvalidConfiguration(
                f"unknown {problem} agent 'search:{rest}'; try for example search:{problem}:{objectives[0]}:{budget}"
            )
        objective = check_choice("objective", parts[0] if parts else objectives[0], objectives)
        return cls(problem, objective, Budget.parse(parts[1]) if len(parts) > 1 else budget, "".join(parts[2:]))

    def __str__(self) -> str:
        """Return the full name."""
        return ":".join(("search", self.problem, self.objective, str(self.budget), *filter(None, (self.guide,))))


def compiled(function: Function, *, allocates: bool = True) -> Function:
    """Return a function that numba compiles on its first call and caches on disk.

    Parameters
    ----------
    function : callable
        Function that numba can compile.
    allocates : bool
        Whether the function, or one that it calls, may create arrays. If not, reference counting is switched off, which
        takes most of the time of short functions with many array arguments.

    Returns
    -------
    callable
            Compiled function; its attribute ``py_func`` is the original.
    """
    import numba

    compiler = cast(Any, numba.njit)  # its type hints lack _nrt, the switch for reference counting
    return cast(Function, compiler(cache=True, _nrt=allocates)(function))


def decoders(module: str) -> ModuleType:
    """Return a module of compiled decoders, imported when the first search agent is created.

    Parameters
    ----------
    module : str
        Full name of the module.

    Returns
    -------
    module
        The module, which imports numba.

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
