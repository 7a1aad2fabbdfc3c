"""Figure 4: the published algorithm with other first steps and decays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from desim.experiments.drawing import facets
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.ogasched.agents import DEFAULT, FIGURE_2, PRINTED
from desim.experiments.ogasched.simulate import Setting
from desim.experiments.ogasched.study import METRIC, OGAStudy
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.tables import value_table

WORDS = {"eta_0": "first step, eta_0", "decay": "decay, lambda"}
INITIALS, DECAYS = (0.1, 1.0, 5.0, 25.0, 100.0, 500.0), (0.99, 0.995, 0.9999, 1.0001)
"""First steps and decays; the paper has 25 and 0.9999."""


@dataclass(frozen=True)
class Figure4(OGAStudy):
    """Average reward by first step and decay."""

    def panels(self) -> Sequence[Panel]:
        """Return both parts; each column is a value of the parameter and determines an agent."""
        first = self.shorter(DEFAULT)
        late = replace(DEFAULT, num_slots=FIGURE_2.num_slots)
        return [_panel("eta_0", "eta", 25.0, INITIALS, first), _panel("decay", "decay", 0.9999, DECAYS, late)]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        if not self.quick:
            yield Paragraph(f"Runs by first step have {self.shorter(DEFAULT).num_slots} slots; the paper has 8,000.")
        for panel, words in WORDS.items():
            yield value_table(frame, panel, METRIC, f"Average reward by {words}")
        figure = facets(frame, {METRIC: "average reward"}, WORDS, width=4.6, height=3.2)
        yield Drawing("figure4.png", "Average reward by first step and decay: means over seeds.", figure)


def _panel(name: str, word: str, usual: float, values: Sequence[float], setting: Setting) -> Panel:
    agents = {f"{value:g}": "ogasched" if value == usual else f"ogasched-{word}={value:g}" for value in values}
    row = {text: Choice(policy) for text, policy in agents.items()}
    return Panel(name, name, dict.fromkeys(agents, setting), {PRINTED: row})
