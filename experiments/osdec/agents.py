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
from desim.experiments.measured import Choice
from desim.experiments.osdec.simulate import SCORE

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
    study: Any, workload: str, wanted: Callable[[Mapping[str, Any]], bool] = lambda config: True
) -> dict[str, Trained]:
    """Return the rows of agents that were trained for a workload.

    Parameters
    ----------
    study : Study
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
    for row, cards in cards_of(study.weights, workload).items():
        members = tuple(
            Choice(SCORE, (("weights", str(stem) if study.weights else stem.name), ("sha256", card["sha256"])))
            for stem, card in cards
            if wanted(card["config"])
        )
        if members:
            rows[row] = Trained(members)
    return rows


def rows_of(
    study: Any, workload: str, *, planning: Sequence[str] = tuple(PLANNING_ROWS)
) -> dict[str, Choice | Trained]:
    """Return the rows of a table.

    Parameters
    ----------
    study : Study
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
    if study.heuristics_only:
        return {**PAPER_ROWS, **MORE_ROWS}
    optimum = Choice("optimum", (("time_limit", study.time_limit),))
    plans = {row: PLANNING_ROWS[row] for row in planning}
    return {**PAPER_ROWS, **learned_rows(study, workload), **MORE_ROWS, **plans, OPTIMUM: optimum}


# -- the paper --------------------------------------------------------------------------------------

LEARNED_ROWS = ("REINFORCE", "PPO", "PointerNet", "PPO+Att", "PPO+Att+AuxH", "PPO+Att+AuxL", "OSDEC")
"""Rows that are trained."""

TABLE_1: Mapping[str, tuple[float, float, float]] = {
    "FIFO": (3602.45, -193.64, 3408.82),
    "SJF": (3386.66, -112.06, 3274.66),
    "Tetris": (3689.65, -282.42, 3407.20),
    "REINFORCE": (3560.23, -121.64, 3301.06),
    "PPO": (3596.25, -218.74, 3377.48),
    "PointerNet": (3583.60, -205.76, 3377.91),
    "PPO+Att": (3495.20, -95.66, 3387.22),
    "PPO+Att+AuxH": (3706.87, -101.28, 3444.00),
    "PPO+Att+AuxL": (3737.47, -240.42, 3466.22),
    "OSDEC": (3761.24, -250.25, 3475.37),
}
"""Utilization, time delay and total reward."""

TABLE_2: Mapping[str, tuple[float, float]] = {
    "FIFO": (3611.01, 3449.22),
    "SJF": (3398.76, 3298.38),
    "Tetris": (3696.79, 3503.01),
    "REINFORCE": (3567.80, 3360.28),
    "PPO": (3589.87, 3384.50),
    "PointerNet": (3576.02, 3398.82),
    "PPO+Att": (3525.43, 3340.77),
    "PPO+Att+AuxH": (3708.02, 3411.08),
    "PPO+Att+AuxL": (3744.02, 3442.96),
    "OSDEC": (3781.17, 3521.23),
}
"""Utilization where it is the only objective, with windows and in real time."""

CASES = ("core case 1", "core case 2", "core case 3", "duration case 1", "duration case 2", "duration case 3")
"""Columns of table 4."""

TABLE_4: Mapping[str, tuple[float, ...]] = {
    "FIFO": (3651.49, 7469.07, 5009.48, 8693.60, 5536.08, 3467.29),
    "SJF": (3518.63, 5771.45, 4412.64, 7633.65, 5032.28, 3340.02),
    "Tetris": (3856.63, 9144.62, 5537.23, 9475.69, 5923.69, 3633.64),
    "REINFORCE": (3613.78, 7148.49, 4869.69, 8136.24, 5327.90, 3399.00),
    "PPO": (3648.38, 7415.11, 4972.13, 8324.38, 5386.61, 3427.17),
    "PointerNet": (3649.47, 7126.47, 4859.10, 8281.23, 5388.20, 3442.37),
    "PPO+Att": (3662.41, 7957.08, 4663.42, 8248.63, 5472.42, 3357.90),
    "PPO+Att+AuxH": (3707.01, 8425.30, 5096.22, 8571.09, 5592.46, 3536.01),
    "PPO+Att+AuxL": (3781.08, 8560.46, 5430.28, 9113.23, 5876.61, 3595.21),
    "OSDEC": (3884.28, 9200.82, 5565.89, 9593.68, 5853.81, 3631.21),
}
"""By case; the paper does not say of what. The order of its rows there is that of the utilization in table 1."""
