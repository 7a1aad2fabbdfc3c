"""Figure 4: OGASched's reward with other first steps and other decays, for both of its forms.

The paper's curves belong to section 4.1, so T is 8000 here; everything else is as in table II.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from desim.experiments.blocks import Block
from desim.experiments.ogasched import pictures
from desim.experiments.ogasched.agents import AGENTS, DEFAULT, RIVALS, ogasched
from desim.experiments.ogasched.study import Panel, Study, data, tables
from desim.experiments.study import run_as_program

TITLE = "Figure 4: hyper-parameters of OGASched"
INITIAL, DECAY = 25.0, 0.9999
FORMS = ("reactive", "reservation")
#: Rows that have no such parameters, beside the others: by form.
LEVELS = {
    "Fairness": dict.fromkeys(FORMS, RIVALS["Fairness"]),
    "LineSearch": {"reactive": AGENTS["LineSearch"], "reservation": AGENTS["LineSearch (reservation)"]},
}


@dataclass(frozen=True)
class Figure4(Study):
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

    def blocks(self) -> Iterator[Block]:
        """Yield tables, in which columns are forms and rows are values of the parameter, files and the figure."""
        initials = {f"{value:g}": (value, DECAY) for value in sorted({INITIAL, *self.initials})}
        decays = {f"{value:g}": (INITIAL, value) for value in sorted({DECAY, *self.decays})}
        found = self.measure(_panel("eta_0", initials, f"{INITIAL:g}"), _panel("decay", decays, f"{DECAY:g}"))
        metrics = ("average_reward", "negative_slots")
        yield from tables(found, TITLE, metrics=metrics, reference="The paper's value", rivals=())
        yield data(found, TITLE, with_curves=True)
        yield pictures.parameters(found)


def _panel(name: str, values: dict[str, tuple[float, float]], reference: str) -> Panel:
    rows = {row: {form: ogasched(form, *steps) for form in FORMS} for row, steps in values.items()}
    rows |= LEVELS
    references = {row: reference for row in rows if row != reference}
    return Panel(name, "form", dict.fromkeys(FORMS, replace(DEFAULT, num_slots=8_000)), rows, references)


if __name__ == "__main__":
    sys.exit(run_as_program(Figure4))
