"""Figure 4: fixed rules, inspectors, DBF as printed, and desim's own agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from desim.experiments.dbf.simulate import Setting
from desim.experiments.dbf.study import ONLINE, RULES, Study, dbf_rows, named, window_rules
from desim.experiments.drawing import draw_rows
from desim.experiments.frame import Choice, Frame, Panel
from desim.experiments.learning_curves import with_weights
from desim.experiments.report_blocks import Block, Drawing, Paragraph
from desim.experiments.tables import metric_table, value_table
from desim.plotting.colors import line_styles

OPEN, CLOSED = "online", "sequences"
STARTED = "1,000 started"
SEQUENCES = {f"{num_jobs} jobs": Setting(arrivals="closed", num_jobs=num_jobs, episodes=60) for num_jobs in (128, 256)}
"""Sequences that end: the lengths with which SchedInspector is trained, and with which its program tests by default."""
KEPT, ANEW, OF_DESIM = "SJF by cores, keeps its place", "SJF by cores, picks anew", "SJF by cores, keeps, EASY"
SEQUENCE_RULES = {
    KEPT: Choice("schedinspector-smallest-first"),
    OF_DESIM: Choice("inspector-smallest-first"),
    ANEW: Choice("backfilling-smallest-first"),
}
"""Readings of SJF with backfilling: in SchedInspector's program, a selected job that does not fit stays selected."""
RELEASED, OURS = "SchedInspector, SJF", "desim's inspector, SJF by cores"
PAPER = (
    "In the paper, windows of 32, 64 and 128 slots have the best waiting times and queue lengths; the "
    "heuristics have slightly better utilization and queued load; and both SchedInspectors have the lowest "
    "utilization. Its mean job slowdowns are 62.2 for SchedInspector over SJF and 73.3 for SJF."
)
SHOWN = ("waiting_time_mean", "queue_length_mean", "utilization", "queued_load_mean")
MORE = ("started_waiting_time_mean", "waiting_time_p99", "waiting_time_max", "seen_queue_length")
SLOWDOWNS = (
    "bounded_slowdown_mean",
    "slowdown_mean",
    "started_bounded_slowdown_mean",
    "started_slowdown_mean",
)


def inspectors() -> dict[str, Choice]:
    """Return SchedInspector as released, and what desim makes of it."""
    return {
        RELEASED: with_weights("schedinspector", "schedinspector-sjf"),
        OURS: with_weights("inspector", "desim-smallest-first"),
    }


def of_desim() -> dict[str, Choice]:
    """Return the split window that desim trains."""
    return {"desim 16-16": with_weights("split-window", "desim-m32-t16")}


@dataclass(frozen=True)
class Figure4(Study):
    """Waiting time, queue length, utilization and queued load online; slowdowns of sequences.

    Attributes
    ----------
    seeds : int
        Number of blocks of episodes.
    """

    seeds: int = 5

    def panels(self) -> Sequence[Panel]:
        """Return all agents online, and SJF with and without inspectors in sequences."""
        at_sight = {f"{rule} in 20-0": choice for rule, choice in window_rules(20, 0).items()}
        online = RULES | at_sight | {KEPT: SEQUENCE_RULES[KEPT]} | inspectors() | dbf_rows() | of_desim()
        return [
            Panel(CLOSED, "sequences", SEQUENCES, SEQUENCE_RULES | inspectors()),
            Panel(OPEN, "episodes", {STARTED: ONLINE}, online),
        ]

    def show(self, frame: Frame) -> Iterator[Block]:
        """Yield the tables and the figure."""
        for metric in ("bounded_slowdown_mean", "slowdown_mean", "waiting_time_mean"):
            yield value_table(frame, CLOSED, metric, f"Sequences that end: {named((metric,))[metric]}, {self.how}")
        for metrics in (SHOWN, MORE, SLOWDOWNS):
            yield metric_table(frame, OPEN, STARTED, named(metrics), f"Online, {self.how}")
        yield Paragraph(PAPER)
        rows = frame.rows(OPEN)
        kinds = {row: "dbf" if row.startswith("dbf") else "desim" if "desim" in row else "rules" for row in rows}
        kinds[RELEASED] = "SchedInspector"
        styles = line_styles(dict.fromkeys(kinds.values()))
        estimates = frame.estimates(OPEN, {label: (STARTED, metric) for metric, label in named(SHOWN).items()})
        order = sorted(rows, key=lambda row: estimates[named(SHOWN)[SHOWN[0]]][row].mean)
        colors = {row: styles[kinds[row]].color for row in rows}
        caption = "Online: rules, inspectors, DBF as printed, and desim's agents; means with 95 % intervals."
        yield Drawing("figure4.png", caption, draw_rows(order, estimates, {}, colors))
