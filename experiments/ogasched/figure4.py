"""Figure 4: OGASched's reward with other first steps and other decays, for both of its forms.

The paper's curves belong to section 4.1, so T is 8000 here; everything else is as in table II.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import RIVALS, ogasched
from desim.experiments.ogasched.options import Options
from desim.experiments.ogasched.report import print_study, write_study
from desim.experiments.ogasched.settings import DEFAULT
from desim.experiments.ogasched.simulating import Choice
from desim.experiments.ogasched.study import Entry, Key, Study, carry_out
from desim.experiments.options import run_as_program

__all__ = ["Figure4", "figure4"]

INITIAL, DECAY = 25.0, 0.9999
BASELINE = "Fairness"
FORMS = ("reactive", "reservation")


@dataclass(frozen=True)
class Figure4(Options):
    """Hyper-parameters of OGASched: the first step and the decay.

    Attributes
    ----------
    initials : tuple of float
        First steps eta_0; 25 is always among them.
    decays : tuple of float
        Decays lambda; 0.9999 is always among them.
    """

    seeds: int = 5
    initials: tuple[float, ...] = (0.1, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 500.0)
    decays: tuple[float, ...] = (0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0, 1.0001)


def figure4(options: Figure4) -> Study:
    """Run the experiment; print, write and draw its results.

    Parameters
    ----------
    options : Figure4
        Values, seeds, size, directories.

    Returns
    -------
    Study
        What was measured; columns are forms, and rows are values of the parameter.
    """
    initials = sorted({INITIAL, *options.initials})
    decays = sorted({DECAY, *options.decays})
    entries = _panel("eta_0", {f"{value:g}": (value, DECAY) for value in initials}, f"{INITIAL:g}")
    entries |= _panel("decay", {f"{value:g}": (INITIAL, value) for value in decays}, f"{DECAY:g}")
    study = carry_out("Figure 4: hyper-parameters of OGASched", entries, options)
    print_study(study, metrics=("average_reward", "negative_slots"), reference="The paper's value", rivals=())
    write_study(study, {"curves": pictures.curve_document(study)})
    pictures.draw_parameters(study)
    return study


def _panel(panel: str, values: dict[str, tuple[float, float]], reference: str) -> dict[Key, Entry]:
    setting = replace(DEFAULT, num_slots=8_000)
    entries = {}
    for form in FORMS:
        choices: dict[str, Choice] = {row: ogasched(form, *steps) for row, steps in values.items()}
        choices[BASELINE] = RIVALS[BASELINE]
        for row, choice in choices.items():
            entries[Key(panel, form, row)] = Entry(
                setting, choice, None if row == reference else Key(panel, form, reference)
            )
    return entries


if __name__ == "__main__":
    sys.exit(run_as_program(Figure4, figure4))
