"""The agents that are compared, by their names in tables and figures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desim.agents.learning.pretrained import PRETRAINED
from desim.exceptions import InvalidConfiguration
from desim.experiments.osdec.options import Options
from desim.experiments.osdec.simulating import Choice

__all__ = [
    "AGENTS",
    "FORESIGHTED",
    "LEARNED",
    "MORE_ROWS",
    "OPTIMUM",
    "OSDEC",
    "PAPER_ROWS",
    "PLANNING_ROWS",
    "SCORE",
    "VARIANTS",
    "WORKLOADS",
    "Trained",
    "cards_of",
    "learned_rows",
    "rows_of",
]

SCORE = "score"
"""The policy of learned agents."""

OSDEC = "OSDEC"
VARIANTS = (OSDEC, "OSDEC, reserving", "OSDEC, reserving, on plans")
"""OSDEC as in the paper, and ours: all known jobs have scores and keep their place, it begins with demonstrations,
and the third is shown when list plans would start each job."""

LEARNED: Mapping[str, str] = {
    "reinforce": "REINFORCE",
    "ppo": "PPO",
    "pointernet": "PointerNet",
    "ppo-att": "PPO+Att",
    "ppo-att-auxh": "PPO+Att+AuxH",
    "ppo-att-auxl": "PPO+Att+AuxL",
    "osdec": OSDEC,
    "osdec-paper": "OSDEC, the paper's settings",
    "osdec-reserving": "OSDEC, reserving",
    "osdec-plans": "OSDEC, reserving, on plans",
}
"""The rows of learned agents, by what stands in the names of their weights: WORKLOAD-THIS for the first training, and
WORKLOAD-THIS-seed1 and so on for others that differ in their seed."""

WORKLOADS: Mapping[str, str] = {
    "default": "the default workload",
    "fluctuating": "the workload with a fluctuating capacity",
    "utilization": "utilization alone, with windows and in real time",
    "cases": "all cases of table 4",
}
"""What WORKLOAD is in the names of weights."""

PAPER_ROWS: dict[str, Choice] = {
    "FIFO": Choice("fifo", (("since", "window"), ("skip", False))),
    "SJF": Choice("sjf", (("measure", "work"), ("skip", False))),
    "Tetris": Choice("tetris", (("skip", False),)),
}
"""The paper's heuristics as they fit its tables best: the first job that does not fit ends the slot."""

MORE_ROWS: dict[str, Choice] = {
    "FIFO, passing over": Choice("fifo", (("since", "window"),)),
    "SJF, passing over": Choice("sjf", (("measure", "work"),)),
    "Tetris, passing over": Choice("tetris"),
    "earliest deadline": Choice("earliest-deadline"),
    "largest revenue": Choice("largest-revenue"),
    "least slack": Choice("least-slack"),
    "random order": Choice("random"),
}
"""The same when they pass over what does not fit, as do more rules that look at one slot only."""

PLANNING_ROWS: dict[str, Choice] = {
    "list plan, best of five": Choice("list-plan"),
    **{f"list plan, by {order}": Choice("list-plan", (("order", order),)) for order in ("slack", "worth")},
    **{
        f"rolling horizon, {forecast}": Choice("rolling-horizon", (("forecast", forecast),))
        for forecast in ("last value", "seasonal", "oracle")
    },
}
"""Agents that plan the jobs they know on a forecast of the capacity; the oracle's is right."""

OPTIMUM = "offline optimum"
"""The row that no other can beat."""

FORESIGHTED = ("rolling horizon, oracle", OPTIMUM)
"""Rows that know what will come; all others are online."""

AGENTS = [*PAPER_ROWS, *LEARNED.values(), *MORE_ROWS, *PLANNING_ROWS, OPTIMUM]
"""All names, in the order that gives them their colours."""


@dataclass(frozen=True)
class Trained:
    """A row of agents that differ in the seed of their training only.

    Attributes
    ----------
    members : tuple of Choice
        Each with ``weights``, the file without its suffixes, and their ``sha256``.
    """

    members: tuple[Choice, ...]

    @property
    def policy(self) -> str:
        """What all of them are."""
        return self.members[0].policy

    @property
    def parameters(self) -> tuple[tuple[str, Any], ...]:
        """Their parameters, each with the values of all members."""
        names = [name for name, _ in self.members[0].parameters]
        values = [[value for _, value in member.parameters] for member in self.members]
        return tuple(zip(names, zip(*values, strict=True), strict=True))

    def with_parameters(self, **parameters: Any) -> Trained:
        """Return the same agents with more parameters.

        Parameters
        ----------
        **parameters
            By name, behind those that they have.
        """
        more = tuple(parameters.items())
        return Trained(tuple(Choice(member.policy, member.parameters + more) for member in self.members))


def cards_of(directory: Path | None, workload: str) -> dict[str, list[tuple[Path, dict[str, Any]]]]:
    """Return the cards of the weights for a workload.

    Parameters
    ----------
    directory : Path or None
        Where weights are; those that come with the package if None.
    workload : str
        What their names begin with.

    Returns
    -------
    dict of str to list of (Path, dict)
        By row, in the order of :data:`LEARNED`, and by the seed of the training: the files without their suffixes, and
        the cards.

    Raises
    ------
    InvalidConfiguration
        If there is no such directory.
    """
    place = PRETRAINED if directory is None else directory.resolve()
    if not place.is_dir():
        raise InvalidConfiguration(f"there is no directory {place}")
    found: dict[str, dict[int, tuple[Path, dict[str, Any]]]] = {}
    for path in place.glob(f"{workload}-*.json"):
        parts = re.fullmatch(r"(.+?)(?:-seed(\d+))?", path.stem[len(workload) + 1 :])
        if parts is not None and parts[1] in LEARNED:
            card = json.loads(path.read_text())
            if card.get("agent") == SCORE:
                found.setdefault(LEARNED[parts[1]], {})[int(parts[2] or 0)] = path.with_name(path.stem), card
    return {row: [found[row][seed] for seed in sorted(found[row])] for row in LEARNED.values() if row in found}


def learned_rows(
    options: Options, workload: str, wanted: Callable[[Mapping[str, Any]], bool] = lambda config: True
) -> dict[str, Trained]:
    """Return the rows of agents that were trained for a workload.

    Parameters
    ----------
    options : Options
        Says where weights are.
    workload : str
        What the names of their weights begin with.
    wanted : callable
        Tells from the configuration of an agent whether to take it.

    Returns
    -------
    dict of str to Trained
        In the order of :data:`LEARNED`; nothing for what was not trained.
    """
    rows = {}
    for row, cards in cards_of(options.weights, workload).items():
        members = tuple(
            Choice(SCORE, (("weights", str(stem) if options.weights else stem.name), ("sha256", card["sha256"])))
            for stem, card in cards
            if wanted(card["config"])
        )
        if members:
            rows[row] = Trained(members)
    return rows


def rows_of(
    options: Options, workload: str, *, planning: Sequence[str] = tuple(PLANNING_ROWS)
) -> dict[str, Choice | Trained]:
    """Return the rows of a table.

    Parameters
    ----------
    options : Options
        Whether agents that were trained, agents that plan and the optimum are wanted, where weights are, and how long
        the optimum may be searched for.
    workload : str
        What the names of the weights begin with.
    planning : sequence of str
        Which of those that plan.

    Returns
    -------
    dict of str to Choice or Trained
        In the order of the table.
    """
    if options.heuristics_only:
        return {**PAPER_ROWS, **MORE_ROWS}
    optimum = Choice("optimum", (("time_limit", options.time_limit),))
    plans = {row: PLANNING_ROWS[row] for row in planning}
    return {**PAPER_ROWS, **learned_rows(options, workload), **MORE_ROWS, **plans, OPTIMUM: optimum}
