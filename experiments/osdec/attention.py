"""What the attention of learned agents goes to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from desim.experiments.blocks import Block, Data, Drawing, Paragraph, Table, with_interval
from desim.experiments.drawing import new_figure
from desim.experiments.measured import Panel
from desim.experiments.osdec.agents import OSDEC
from desim.experiments.osdec.learned import KINDS, Seen, attention_metric, perform_attention, seen_by
from desim.experiments.osdec.study import Measured, Study
from desim.experiments.study import run_as_program

TITLE = "What attention looks at"
CASES = ("default", "fluctuating")
SHOWN_SEED, SHOWN_JOBS, SHOWN_TOKENS = 0, 5, 31
#: Attention that is more than so many times doubled or halved is drawn like that.
FARTHEST = 3.0


@dataclass(frozen=True)
class Attention(Study):
    """What a job looks at that may be started."""

    seeds: int = 20

    def measured(self) -> Measured:
        """Return what the runs bring; no panels if no weights have attention."""
        panels = self.learned_panels(CASES, lambda config: bool(config["network"] == "attention"))
        return self.measure(*panels, reference="", learned_by=perform_attention)

    def blocks(self) -> Iterator[Block]:
        """Yield tables, files and figures."""
        found = self.measured()
        if not found.panels:
            yield Paragraph("There are no weights with attention.")
            return
        yield from found.runs
        yield from self.heading(TITLE, f"{len(self.seed_list)} trajectories, means with 95 % intervals")
        layers = {panel.name: range(1, _layers(found, panel) + 1) for panel in found.panels}
        for panel in found.panels:
            yield from (_table(found, panel, layer) for layer in layers[panel.name])
        cells = [
            {
                "workload": panel.name,
                "agent": row,
                "weights": "; ".join(dict(choice.parameters)["weights"]),
                "layer": layer,
                "kind": kind,
                "num_trajectories": len(self.seed_list),
                **found.summary(panel, panel.name, row, attention_metric(layer, kind)),
            }
            for panel in found.panels
            for row, choice in panel.rows.items()
            for layer in layers[panel.name]
            for kind in KINDS
        ]
        yield Data({"title": TITLE, "options": asdict(self), "cells": cells}, cells)
        yield from (drawing for panel in found.panels for drawing in self._drawings(panel))

    def _drawings(self, panel: Panel) -> Iterator[Drawing]:
        """Yield the picture of a decision, if there is one to show."""
        row = OSDEC if OSDEC in panel.rows else next(iter(panel.rows))
        setting = self.fit(panel.columns[panel.name])
        shown = shown_decision(seen_by(panel.rows[row].members[0], setting, SHOWN_SEED))
        if shown is not None:
            yield _drawing(shown, row, f"attention_{panel.name}.png")


def _layers(found: Measured, panel: Panel) -> int:
    """Return how many layers the deepest network has."""
    outcomes = [found.outcomes[panel.name, panel.name, row][0] for row in panel.rows]
    return max(sum(name.endswith(f": {KINDS[0]}") for name in outcome) for outcome in outcomes)


def _table(found: Measured, panel: Panel, layer: int) -> Table:
    names = [attention_metric(layer, kind) for kind in KINDS]
    rows = [
        [row, *(with_interval(found.estimate(panel, panel.name, row, name)) for name in names)] for row in panel.rows
    ]
    title = f"{panel.name}, layer {layer}: attention of a job that may be started, 1 if it looked at all tokens alike"
    return Table(title, ["", *KINDS], rows)


def shown_decision(decisions: Sequence[Seen]) -> Seen | None:
    """Return a decision for a picture: the first with several jobs, some that fit, some that do not, and future ones.

    Parameters
    ----------
    decisions : sequence of Seen
        Of one trajectory.

    Returns
    -------
    Seen or None
        If there is none like that, the one with most jobs that may be started of those with few jobs in all, if
        possible with future ones; None if all have many.
    """
    few = [seen for seen in decisions if len(seen.cores) < SHOWN_TOKENS]
    for seen in few:
        if SHOWN_JOBS <= seen.num_current < len(seen.cores) and len(set(seen.fits)) > 1:
            return seen
    return max(few, key=lambda seen: (seen.num_current < len(seen.cores), seen.num_current), default=None)


def _drawing(seen: Seen, row: str, file: str) -> Drawing:
    """Draw the attention of one decision, one axes a layer."""
    layers, tokens = seen.weights.shape[:2]
    number = seen.num_current
    columns = zip(seen.cores, seen.durations, seen.slacks, strict=True)
    jobs = ["system", *(f"{cores:g}×{duration:g}, {slack:g}" for cores, duration, slack in columns)]
    scored = [
        f"{job}{'' if fits else ' (does not fit)'}: {score:+.2f}"
        for job, fits, score in zip(jobs[1:], seen.fits, seen.scores, strict=False)
    ]
    looking = ["system", *scored, *(f"{job} (future)" for job in jobs[1 + number :])]
    times = np.log2(np.maximum(seen.weights * tokens, 2.0**-FARTHEST))
    most = float(min(max(np.abs(times).max(), 0.5), FARTHEST))
    figure, grid = new_figure(1, layers, width=2.0 + 0.27 * tokens, height=1.7 + 0.27 * tokens)
    for layer, ax in enumerate(grid[0]):
        image = ax.imshow(times[layer], cmap="RdBu_r", vmin=-most, vmax=most)
        ax.set_xticks(range(tokens), jobs, rotation=90, fontsize=7)
        ax.set_yticks(range(tokens), looking if layer == 0 else [], fontsize=7)
        for line in (0.5, number + 0.5):
            ax.axhline(line, color="black", linewidth=0.8)
            ax.axvline(line, color="black", linewidth=0.8)
        ax.set_title(f"layer {layer + 1}", fontsize=9)
        ax.set_xlabel("looked at: cores×slots, slots left for a start", fontsize=8)
    grid[0, 0].set_ylabel("looks: the same, and the score", fontsize=8)
    bar = figure.colorbar(image, ax=list(grid[0]), shrink=0.8)
    bar.set_label("log2 of the attention over that of looking at all alike", fontsize=8)
    figure.suptitle(f"{row} in slot {seen.slot}", x=0.01, ha="left", fontsize=10)
    return Drawing(file, f"Attention of {row} in slot {seen.slot}: red is more than looking at all alike.", figure)


if __name__ == "__main__":
    sys.exit(run_as_program(Attention))
