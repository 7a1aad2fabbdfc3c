"""The agents that are compared, by their names in tables and figures."""

from __future__ import annotations

import json

from desim.agents.learning.pretrained import pretrained_stem
from desim.experiments.lachesis.simulate import Choice

__all__ = [
    "AGENTS",
    "ARRIVING_ROWS",
    "DECIMA",
    "IDLE_ROWS",
    "IMITATING",
    "LACHESIS",
    "LACHESIS_COMPLETION",
    "LEARNED",
    "LEARNED_IN_BATCHES",
    "OWN_ROWS",
    "PAPER_ROWS",
    "PASSES_MESSAGES",
    "PLANNED_ROWS",
    "REFERENCE",
    "WEIGHTS",
]

LACHESIS, LACHESIS_COMPLETION, DECIMA = "LACHESIS", "LACHESIS, completion time", "Decima-DEFT"

IN_BATCHES = "tpch-batch"
WEIGHTS = {
    LACHESIS: "tpch-makespan",
    LACHESIS_COMPLETION: "tpch-completion",
}
"""The weights of the learned agents. The second one is trained to keep the mean job completion time short, the others
the makespan."""


def _learned(name: str, *, plan_ahead: bool = False) -> Choice:
    """Return an agent with weights that come with the package: runs with other weights are other runs."""
    card = json.loads(pretrained_stem(name, "graph").with_suffix(".json").read_text())
    return Choice(f"graph:{name}", plan_ahead, card["sha256"])


LEARNED: dict[str, Choice] = {row: _learned(name) for row, name in WEIGHTS.items()}
"""The agents that are trained. They give nodes to idle executors only, and may wait for a busy one."""

LEARNED_IN_BATCHES = LEARNED | {LACHESIS: _learned(IN_BATCHES, plan_ahead=True)}
"""Where all jobs are there at the beginning, LACHESIS plans ahead, with weights that were trained for that."""

PASSES_MESSAGES = "imitating search, messages"
IMITATING: dict[str, Choice] = {
    f"imitating search, seed {seed}": _learned("local-imitating-search" + (f"-seed{seed}" if seed else ""))
    for seed in range(5)
} | {PASSES_MESSAGES: _learned("messages-imitating-search")}
"""Networks that learned which node the search for short completion times would assign next: five trainings of one that
passes no messages between nodes, and one of LACHESIS' that does."""

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

OWN_ROWS: dict[str, Choice] = {
    "least work-DEFT, idle": Choice("least-work-deft-idle"),
    "rank_up-DEFT, patient": Choice("rank_up-deft-patient"),
    "least work-DEFT, patient": Choice("least-work-deft-patient"),
}
"""Found while the learned agents were made, which began by learning to do as the patient ones do: these give a node to
an idle executor only, and to none while a busy one would finish it sooner."""

AGENTS = [*WEIGHTS, *PAPER_ROWS, *PLANNED_ROWS, *IDLE_ROWS, *OWN_ROWS]
"""All names, in the order that gives them their colours."""

REFERENCE = LACHESIS
"""What the others are compared with."""
