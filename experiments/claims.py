"""Claims of papers compared with measurements: calibration of fixed rules first, then claims with verdicts."""

from __future__ import annotations

import csv
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
    "read_printed",
    "read_register",
    "register_table",
]

Verdict = Literal["reproduced", "reproduced in order only", "not reproduced", "cannot be judged here"]

REGISTER_FILE = "register.toml"
"""Name of the register file in the package of a paper's studies."""

PRINTED_FILE = "printed.csv"
"""Name of the file with a paper's numbers in the package of its studies."""

KINDS = ("not stated", "departure")


@dataclass(frozen=True)
class FixedRule:
    """Number that a paper states for a rule without learning; it calibrates workload and metric.

    Attributes
    ----------
    rule : str
        Name of the rule.
    setting : str
        Workload and place in the paper.
    metric : str
        Name of the metric, with its unit.
    paper : float
        Number in the paper, not 0.
    ours : Estimate
        Measured number.
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
        """Difference of the measured number from the paper's, in percent of the paper's."""
        return 100.0 * (self.ours.mean - self.paper) / abs(self.paper)

    @property
    def is_calibrated(self) -> bool:
        """Whether the distance is at most `within`, above or below."""
        return abs(self.distance) <= self.within

    @property
    def verdict(self) -> str:
        """Whether the rule is calibrated, as text."""
        return f"matches within {self.within:g} %" if self.is_calibrated else "not calibrated"


@dataclass(frozen=True)
class Claim:
    """Claim of a paper, and the corresponding measurement.

    Attributes
    ----------
    what : str
        Text of the claim, with the unit of its number.
    paper : float or str
        Number in the paper, or a few words if it states only an order.
    ours : Estimate or str
        Measured value in the same unit, or a few words.
    tolerance : float
        Distance between the paper's number and our interval that still counts as equal, in the unit of the claim;
        papers print rounded numbers from their own samples.
    in_order : bool, optional
        Whether the order or direction in the paper also holds here; None if the paper claims none.
    is_judged : bool
        Whether the claim can be judged: the fixed rules of its workload are calibrated, and the agent was trained.
    reason : str
        Reason for the verdict, in one sentence.
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
        """Verdict on the claim; exceeding the paper's number counts as a miss, just like falling short.

        An interval that contains the paper's number, but is wider than both this number and the tolerance, is too wide
        to judge the claim.
        """
        if not self.can_be_judged:
            return "cannot be judged here"
        if isinstance(self.paper, str) or isinstance(self.ours, str):
            return "reproduced" if self.in_order else "not reproduced"
        width = self.ours.half_width if math.isfinite(self.ours.half_width) else 0.0
        if abs(self.ours.mean - self.paper) <= width + self.tolerance:
            is_sharp = 2.0 * width <= max(abs(self.paper), 2.0 * self.tolerance)
            return "reproduced" if is_sharp else "cannot be judged here"
        return "reproduced in order only" if self.in_order else "not reproduced"

    @property
    def can_be_judged(self) -> bool:
        """Whether there is a measurement, on a calibrated workload and of a trained agent."""
        return self.is_judged and not (isinstance(self.ours, Estimate) and not math.isfinite(self.ours.mean))

    @property
    def why(self) -> str:
        """Reason for the verdict, also where it is only the width of the interval."""
        is_wide = self.can_be_judged and self.verdict == "cannot be judged here"
        return "; ".join(filter(None, (self.reason, "the interval is too wide" if is_wide else "")))


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims of a paper as the table at the beginning of its report."""
    rows: list[list[str | Cell]] = [
        [
            claim.what,
            claim.paper if isinstance(claim.paper, str) else short(claim.paper),
            claim.ours if isinstance(claim.ours, str) else with_interval(claim.ours),
            Cell(claim.verdict, bold=claim.verdict == "reproduced", warn=claim.verdict == "not reproduced"),
            claim.why,
        ]
        for claim in claims
    ]
    return Table("What the paper claims", ["claim", "paper", "here", "verdict", "why"], rows, (1, 3, 4))


def fixed_rules_table(rules: Sequence[FixedRule]) -> Table:
    """Return the numbers of the fixed rules as a table."""
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
    """Detail that a paper does not state, or in which it cannot be followed.

    Attributes
    ----------
    item : str
        Name of the detail.
    where : str
        Place in the paper.
    kind : {"not stated", "departure"}
        Whether the paper does not state it, or cannot be followed.
    candidates : list of str
        Possible readings.
    used : str
        Reading that the study uses.
    effect : str
        Measured effect on the main results.
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
        Package of its studies, such as ``"desim.experiments.osdec"``.

    Returns
    -------
    list of RegisterItem
        Items in the order of the file; empty if the package has no register.

    Raises
    ------
    InvalidConfiguration
        If an item lacks a field, has an unknown field, or has an unknown kind.
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


def read_printed(package: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return the numbers that a paper prints, by table, row and column.

    Parameters
    ----------
    package : str
        Package of its studies, such as ``"desim.experiments.osdec"``.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    with (files(package) / PRINTED_FILE).open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            found.setdefault(line["table"], {}).setdefault(line["row"], {})[line["column"]] = float(line["value"])
    return found


def register_table(items: Sequence[RegisterItem]) -> Table:
    """Return a register as a folded table."""
    rows = [[one.item, one.where, one.kind, "; ".join(one.candidates), one.used, one.effect] for one in items]
    heads = ["item", "where", "", "candidates", "used", "effect"]
    silent = sum(one.kind == "not stated" for one in items)
    folded = f"Register: {silent} items that the paper does not state, {len(items) - silent} departures"
    return Table("Register", heads, rows, tuple(range(1, 6)), folded=folded)
