"""What a paper says beside what was measured: fixed rules first, then claims, with verdicts that cut both ways."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, Literal

from desim.exceptions import InvalidConfiguration
from desim.experiments.report_blocks import short, with_interval
from desim.plotting.page import Cell, Table
from desim.statistics import Estimate

__all__ = [
    "REGISTER_FILE",
    "Claim",
    "FixedRule",
    "RegisterItem",
    "Verdict",
    "claims_table",
    "fixed_rules_table",
    "read_register",
    "register_table",
]

Verdict = Literal["reproduced", "reproduced in order only", "not reproduced", "cannot be judged here"]

REGISTER_FILE = "register.toml"
"""Name of the register in the package of a paper's studies."""

KINDS = ("not stated", "departure")


@dataclass(frozen=True)
class FixedRule:
    """A number that a paper states of a rule without learning: it pins down workload and metric.

    Attributes
    ----------
    rule : str
        The rule.
    setting : str
        Workload and place in the paper.
    metric : str
        What was measured, with its unit.
    paper : float
        The paper's number, not 0.
    ours : Estimate
        Ours.
    within : float
        Largest distance that counts as calibrated, in percent of the paper's number.
    """

    rule: str
    setting: str
    metric: str
    paper: float
    ours: Estimate
    within: float = 5.0

    @property
    def distance(self) -> float:
        """By how many percent of the paper's number ours is above it."""
        return 100.0 * (self.ours.mean - self.paper) / abs(self.paper)

    @property
    def is_calibrated(self) -> bool:
        """Whether ours is near enough, above or below."""
        return abs(self.distance) <= self.within

    @property
    def verdict(self) -> str:
        """The same in words."""
        return f"matches within {self.within:g} %" if self.is_calibrated else "not calibrated"


@dataclass(frozen=True)
class Claim:
    """Something that a paper claims, and what was measured here.

    Attributes
    ----------
    what : str
        The claim, with the unit of its number.
    paper : float or str
        The paper's number; or a few words if it states an order only.
    ours : Estimate or str
        What was measured, in the same unit; or a few words.
    tolerance : float
        Distance between the paper's number and our interval that still counts as the same, in the unit of the claim;
        papers print digits and samples of their own.
    in_order : bool, optional
        Whether the order or direction that the paper claims shows here; None if it claims none.
    is_judged : bool
        Whether it can be judged at all: the fixed rules of its workload are calibrated, and the agent was trained.
    reason : str
        Why the verdict is what it is, in a sentence.
    """

    what: str
    paper: float | str
    ours: Estimate | str
    tolerance: float = 0.0
    in_order: bool | None = None
    is_judged: bool = True
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        """What holds of the claim; more than the paper has is as much a miss as less.

        An interval that holds the paper's number, and is wider than that and than the tolerance, decides nothing.
        """
        if not self.is_judged or (isinstance(self.ours, Estimate) and not math.isfinite(self.ours.mean)):
            return "cannot be judged here"
        if isinstance(self.paper, str) or isinstance(self.ours, str):
            return "reproduced" if self.in_order else "not reproduced"
        width = self.ours.half_width if math.isfinite(self.ours.half_width) else 0.0
        if abs(self.ours.mean - self.paper) <= width + self.tolerance:
            is_sharp = 2.0 * width <= max(abs(self.paper), 2.0 * self.tolerance)
            return "reproduced" if is_sharp else "cannot be judged here"
        return "reproduced in order only" if self.in_order else "not reproduced"


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims of a paper as the table that opens its report."""
    rows: list[list[str | Cell]] = [
        [
            claim.what,
            claim.paper if isinstance(claim.paper, str) else short(claim.paper),
            claim.ours if isinstance(claim.ours, str) else with_interval(claim.ours),
            Cell(claim.verdict, bold=claim.verdict == "reproduced", warn=claim.verdict == "not reproduced"),
            claim.reason,
        ]
        for claim in claims
    ]
    return Table("What the paper claims", ["claim", "paper", "here", "verdict", "why"], rows, (1, 3, 4))


def fixed_rules_table(rules: Sequence[FixedRule]) -> Table:
    """Return the numbers of fixed rules as a table."""
    rows: list[list[str | Cell]] = [
        [
            rule.rule,
            rule.setting,
            rule.metric,
            short(rule.paper),
            with_interval(rule.ours),
            f"{rule.distance:+.1f} %",
            Cell(rule.verdict, warn=not rule.is_calibrated),
        ]
        for rule in rules
    ]
    heads = ["rule", "setting", "metric", "paper", "here", "distance", ""]
    return Table("Fixed rules", heads, rows, (1, 2, 6))


@dataclass(frozen=True)
class RegisterItem:
    """Something that a paper does not state, or in which its text forces a departure.

    Attributes
    ----------
    item : str
        What is open.
    where : str
        Place in the paper.
    kind : {"not stated", "departure"}
        Whether the paper is silent, or cannot be followed.
    candidates : list of str
        Readings that are possible.
    used : str
        The reading that the study uses.
    effect : str
        What it changes in the headline, as far as that was measured.
    """

    item: str
    where: str
    kind: str
    candidates: Sequence[str]
    used: str
    effect: str


def read_register(package: str) -> list[RegisterItem]:
    """Read the register of a paper.

    Parameters
    ----------
    package : str
        Of its studies, such as ``"desim.experiments.osdec"``.

    Returns
    -------
    list of RegisterItem
        In the order of the file; empty if the package has none.

    Raises
    ------
    InvalidConfiguration
        If an item lacks a field, has another one, or is of an unknown kind.
    """
    path = files(package) / REGISTER_FILE
    if not path.is_file():
        return []
    names = {one.name for one in fields(RegisterItem)}
    items = []
    for number, values in enumerate(tomllib.loads(path.read_text(encoding="utf-8"))["item"], 1):
        found: dict[str, Any] = values
        if set(found) != names or found["kind"] not in KINDS:
            raise InvalidConfiguration(
                f"{REGISTER_FILE} of {package}, item {number}: got {', '.join(sorted(found))} of kind "
                f"{found.get('kind')!r}, expected {', '.join(sorted(names))} and a kind of {' or '.join(KINDS)}"
            )
        items.append(RegisterItem(**found))
    return items


def register_table(items: Sequence[RegisterItem]) -> Table:
    """Return a register as a folded table."""
    rows = [[one.item, one.where, one.kind, "; ".join(one.candidates), one.used, one.effect] for one in items]
    heads = ["item", "where", "", "candidates", "used", "effect"]
    silent = sum(one.kind == "not stated" for one in items)
    folded = f"Register: {silent} items that the paper does not state, {len(items) - silent} departures"
    return Table("Register", heads, rows, tuple(range(1, 6)), folded=folded)
