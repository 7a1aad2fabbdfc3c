"""Which reading of each baseline is the strongest: the paper describes them in a sentence each.

Every reading that `desim.agents.multiserver` knows runs in the setting of table II. The rows that the other
experiments use are the references; a reading that earns more than its reference would be named.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import AGENTS, OGASCHED, RIVALS, choose
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.report import print_study, write_study
from desim.experiments.ogasched.settings import DEFAULT
from desim.experiments.ogasched.simulating import Choice
from desim.experiments.ogasched.study import Entry, Key, Study, carry_out
from desim.experiments.options import run_as_program

__all__ = ["READINGS", "Rivals", "rivals"]

PANEL, COLUMN = "readings", "table II"


def _packings(policy: str) -> dict[str, Choice]:
    """Return the readings of a policy that scores nodes."""
    return {
        f"{policy}, {order}, {'all nodes' if most is None else f'{most} nodes'}": choose(
            policy, order=order, most_workers=most
        )
        for order in ("workers", "jobs")
        for most in (None, 16, 4)
        if (order, most) != ("workers", None)
    }


READINGS: dict[str, dict[str, Choice]] = {
    "DRF": {"DRF, progressive": choose("DRF", filling="progressive")},
    "Fairness": {"Fairness, all": choose("Fairness", among="all")},
    "BinPacking": _packings("BinPacking"),
    "Spreading": _packings("Spreading"),
}
"""Other readings than the one that is used, by baseline."""


@dataclass(frozen=True)
class Rivals(Options):
    """Readings of the baselines: which one is the strongest."""


def rivals(options: Rivals) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Rivals
        Seeds, size, directories.

    Returns
    -------
    Study
        What was measured.
    """
    entries = {Key(PANEL, COLUMN, OGASCHED): Entry(DEFAULT, AGENTS[OGASCHED])}
    for name, readings in READINGS.items():
        used = Key(PANEL, COLUMN, name)
        entries[used] = Entry(DEFAULT, RIVALS[name])
        entries |= {Key(PANEL, COLUMN, row): Entry(DEFAULT, choice, used) for row, choice in readings.items()}
    study = carry_out("Readings of the baselines", entries, options)
    others = [row for readings in READINGS.values() for row in readings]
    print_study(study, reference="The reading in use", rivals=others)
    write_study(study)
    pictures.draw_bars(study, "average_reward")
    return study


if __name__ == "__main__":
    sys.exit(run_as_program(Rivals, rivals))
