"""What was to be shown: each a sentence with the figures, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from desim.cli.output import print_text
from desim.cli.transcript import keep

__all__ = ["Check", "failures", "print_checks"]


@dataclass(frozen=True)
class Check:
    """Something that was to be shown.

    Attributes
    ----------
    text : str
        What, with figures.
    holds : bool
        Whether it is so.
    """

    text: str
    holds: bool

    def __str__(self) -> str:
        """Return a line for a report."""
        return f"{'holds' if self.holds else 'FAILS'}: {self.text}"


def failures(checks: Sequence[Check]) -> list[Check]:
    """Return what does not hold.

    Parameters
    ----------
    checks : sequence of Check
        What was to be shown.

    Returns
    -------
    list of Check
        In order.
    """
    return [check for check in checks if not check.holds]


def print_checks(checks: Sequence[Check]) -> None:
    """Print what was to be shown, and whether it holds.

    Parameters
    ----------
    checks : sequence of Check
        What was to be shown; a trial in a smaller size need not.
    """
    if not checks:
        return
    with keep("checks", checks=[asdict(check) for check in checks]):
        for check in checks:
            print_text(str(check))
        print_text(f"{len(checks) - len(failures(checks))} of {len(checks)} checks hold.")
