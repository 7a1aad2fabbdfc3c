"""Independent check whether the records of a run are possible at all.

Nothing here is shared with the dynamics: the rules are stated again, on the tables alone, so that an
error in the simulator cannot hide itself. Each problem has its rules in ``desim.problems.NAME.rules``; those of the
multi-server cluster are in `desim.validation.multiserver`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from desim.exceptions import InvalidConfiguration
from desim.problem import kind_of
from desim.validation.engine import rules_of
from desim.validation.multiserver import MULTISERVER_RULES, validate_multiserver
from desim.validation.report import ValidationReport, Violation

if TYPE_CHECKING:
    from desim.result import Result

__all__ = [
    "MULTISERVER_RULES",
    "ValidationReport",
    "Violation",
    "rules_of",
    "validate",
    "validate_multiserver",
]

_VALIDATORS: dict[str, Callable[..., ValidationReport]] = {
    "multiserver": validate_multiserver,
}


def validate(result: Result, workload: Iterable[Any] | None = None, *, stop_after: int = 20) -> ValidationReport:
    """Check the records of a run against the rules of its problem.

    Parameters
    ----------
    result : Result
        The run, whatever its status.
    workload : iterable, optional
        What was simulated (its jobs, but for the multi-server cluster the rows of its arrivals), to check that nothing
        was lost, invented or changed. It is read once, and no further than the run has come.
    stop_after : int
        How many violations of each rule are described; all are counted.

    Returns
    -------
    ValidationReport
        Violations and checks; its ``ok`` is True for a valid run.

    Raises
    ------
    InvalidConfiguration
        If the result names no problem that has rules, or ``stop_after`` is below 1.
    """
    from desim.validation.engine import check_run

    kind = kind_of(result)
    if kind.rules or (kind.tables and kind.name not in _VALIDATORS):
        return check_run(kind, result, workload, stop_after=stop_after)
    problem = result.info.get("problem")
    validator = _VALIDATORS.get(str(problem))
    if validator is None:
        raise InvalidConfiguration(
            f"no rules for problem {problem!r} (run status {result.info.get('status')!r}); "
            f"there are rules for {', '.join(_VALIDATORS)}"
        )
    return validator(result, workload, stop_after=stop_after)
