"""The agents that are compared, by their names in tables and figures."""

from __future__ import annotations

from experiments.lachesis.simulating import Choice

__all__ = ["AGENTS", "ARRIVING_ROWS", "IDLE_ROWS", "LEARNED", "PAPER_ROWS", "PLANNED_ROWS", "REFERENCE"]

LEARNED: dict[str, Choice] = {}
"""LACHESIS and Decima-DEFT stand here once they are trained: every experiment then has them."""

PAPER_ROWS: dict[str, Choice] = {
    "FIFO-DEFT": Choice("fifo-deft"),
    "SJF-DEFT": Choice("sjf-deft"),
    "HRRN-DEFT": Choice("hrrn-deft"),
    "rank_up-DEFT": Choice("rank_up-deft"),
    "HEFT": Choice("heft", plan_ahead=True),
    "TDCA": Choice("tdca", plan_ahead=True),
}
"""The heuristics of section V-B; the event-driven ones assign a node when all its parents have finished."""

PLANNED_ROWS: dict[str, Choice] = {
    "CPOP": Choice("cpop", plan_ahead=True),
    "DLS": Choice("dls", plan_ahead=True),
    "PEFT": Choice("peft", plan_ahead=True),
    "rank_up-DEFT, planned": Choice("rank_up-deft", plan_ahead=True),
}
"""More that plan whole jobs; the last one is rank_up-DEFT that need not wait for parents to finish."""

ARRIVING_ROWS: dict[str, Choice] = {row: choice for row, choice in PLANNED_ROWS.items() if row != "CPOP"}
"""Those among them that are compared when jobs arrive one by one. CPOP is not: it binds the critical path of every job
to the executor that is best for it, which with related speeds is the same one for all, whatever waits there."""

IDLE_ROWS: dict[str, Choice] = {
    "FIFO-DEFT, idle": Choice("fifo-deft-idle"),
    "SJF-DEFT, idle": Choice("sjf-deft-idle"),
    "HRRN-DEFT, idle": Choice("hrrn-deft-idle"),
    "rank_up-DEFT, idle": Choice("rank_up-deft-idle"),
}
"""Those that keep nodes back until an executor is idle."""

AGENTS = [*PAPER_ROWS, *PLANNED_ROWS, *IDLE_ROWS, "LACHESIS", "Decima-DEFT"]
"""All names, in the order that gives them their colours."""

REFERENCE = next(iter(LEARNED), "rank_up-DEFT")
"""What the others are compared with: the first learned agent, or the paper's strongest heuristic."""
