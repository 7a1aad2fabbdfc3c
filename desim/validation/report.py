"""What a validation has found: rules, violations, and how much was looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import DesimError, InvalidConfiguration

__all__ = ["Findings", "ValidationReport", "Violation"]


class Violation(NamedTuple):
    """One violation of a rule.

    Attributes
    ----------
    rule : str
        Name of the rule.
    message : str
        Names the job, time or core, and the values that contradict each other.
    """

    rule: str
    message: str

    def __str__(self) -> str:
        """Join rule and message."""
        return f"{self.rule}: {self.message}"


@dataclass(frozen=True)
class ValidationReport:
    """The outcome of a validation.

    Attributes
    ----------
    violations : tuple of Violation
        By rule, in the order of checking; at most ``stop_after`` of each rule.
    counts : mapping of str to int
        All violations of each rule that was broken.
    checks : mapping of str to int
        The rules that were checked, and on how many rows (of the largest table concerned).
    """

    violations: tuple[Violation, ...]
    counts: Mapping[str, int]
    checks: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not self.counts

    def raise_if_invalid(self) -> None:
        """Raise an error that tells all the violations, if there are any.

        Raises
        ------
        DesimError
            If a rule was broken.
        """
        if not self.ok:
            raise DesimError(str(self))

    def __str__(self) -> str:
        """Write a paragraph: one line if all is well, else the violations by rule."""
        rows = max(self.checks.values(), default=0)
        if self.ok:
            return f"valid: {len(self.checks)} rules hold ({rows} rows in the largest table)"
        lines = [f"invalid: {sum(self.counts.values())} violations of {len(self.counts)} of {len(self.checks)} rules"]
        for rule, count in self.counts.items():
            shown = [violation.message for violation in self.violations if violation.rule == rule]
            lines.append(f"  {rule} ({count} of {self.checks[rule]} rows)")
            lines += [f"    {message}" for message in shown]
            if len(shown) < count:
                lines.append(f"    and {count - len(shown)} more")
        return "\n".join(lines)


class Findings:
    """Collects what is found while the rules are checked one by one.

    Parameters
    ----------
    stop_after : int
        How many violations of a rule are described; all are counted.

    Raises
    ------
    InvalidConfiguration
        If ``stop_after`` is below 1.
    """

    def __init__(self, stop_after: int) -> None:
        if stop_after < 1:
            raise InvalidConfiguration(f"stop_after is {stop_after!r}, want at least 1")
        self._stop_after = stop_after
        self._messages: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._checks: dict[str, int] = {}

    def check(
        self, rule: str, rows: int, wrong: NDArray[np.bool_] | NDArray[np.int64], message: Callable[[int], str]
    ) -> None:
        """Note the outcome of one check; a rule may consist of several.

        Parameters
        ----------
        rule : str
            Name of the rule.
        rows : int
            How many rows were looked at.
        wrong : array of bool or of int
            Which of them break the rule, as a mask or by index.
        message : callable
            Describes the violation of a given index.
        """
        self._checks[rule] = max(rows, self._checks.get(rule, 0))
        indices = np.flatnonzero(wrong) if wrong.dtype == np.bool_ else wrong
        if len(indices):
            self._counts[rule] = self._counts.get(rule, 0) + len(indices)
            messages = self._messages.setdefault(rule, [])
            room = max(self._stop_after - len(messages), 0)
            messages += [message(int(index)) for index in indices[:room]]

    def note(self, rule: str, rows: int, messages: list[str]) -> None:
        """Note violations that are described already.

        Parameters
        ----------
        rule : str
            Name of the rule.
        rows : int
            How many rows were looked at.
        messages : list of str
            The violations; none says that all is well.
        """
        self.check(rule, rows, np.arange(len(messages)), messages.__getitem__)

    def report(self) -> ValidationReport:
        """Return what was found so far.

        Returns
        -------
        ValidationReport
            The violations, by rule in the order of checking, and the checks.
        """
        violations = [Violation(rule, text) for rule, messages in self._messages.items() for text in messages]
        return ValidationReport(tuple(violations), dict(self._counts), dict(self._checks))
