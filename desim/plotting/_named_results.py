"""What all figures of runs begin with: results by name, of one problem, and their titles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from desim.exceptions import InvalidConfiguration
from desim.result import Result

__all__ = ["named_results", "problem_of", "title_of"]

LONGEST_NAME = 60


def named_results(
    results: Result | Mapping[str, Result], problem: str, table: str | None, *, default: str | None = None
) -> dict[str, Result]:
    """Return results by name, or raise InvalidConfiguration unless all are of a problem and have a table of its.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One result, which is called after its agent, or several by name.
    problem : str
        Such as ``"batch"``.
    table : str or None
        One that its results have, if there is one.
    default : str, optional
        The problem of a result that names none.

    Returns
    -------
    dict of str to Result
        In the order of the mapping.

    Raises
    ------
    InvalidConfiguration
        If this is no result, an empty mapping, or a result of another problem.
    """
    if isinstance(results, Result):
        results = {str(results.info.get("agent") or "result"): results}
    if not isinstance(results, Mapping):
        raise InvalidConfiguration(f"results is {results!r}, want a Result or a mapping of names to results")
    if not results:
        raise InvalidConfiguration("results is an empty mapping, want at least one result")
    for name, result in results.items():
        if not isinstance(result, Result):
            raise InvalidConfiguration(f"results[{str(name)!r}] is {result!r}, want a Result")
        found = result.info.get("problem", default)
        if found != problem or (table is not None and table not in result.table_names):
            raise InvalidConfiguration(f"results[{str(name)!r}] is a result of the problem {found!r}, want {problem!r}")
    return {str(name): result for name, result in results.items()}


def problem_of(results: Result | Mapping[str, Result], default: str) -> str:
    """Return the problem of one result or of the first of several; the default where there is no telling."""
    first = next(iter(results.values()), None) if isinstance(results, Mapping) else results
    return str(first.info.get("problem", default)) if isinstance(first, Result) else default


def title_of(name: str, info: Mapping[str, Any]) -> str:
    """Return the name, shortened, with the status of a run that is not complete."""
    status = info.get("status", "complete")
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short if status == "complete" else f"{short} ({status})"
