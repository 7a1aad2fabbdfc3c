"""``desim adversary``: find small instances on which an agent does worst relative to others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from desim import plugins
from desim.cli.options import JsonFlag, listed
from desim.cli.output import print_json, print_table, print_text
from desim.exceptions import InvalidConfiguration
from desim.notes import progress
from desim.sweep.adversary import Annealing, Ratio, instances_of, search

__all__ = ["Adversary"]

OBJECTIVES = {"dag": "makespan", "batch": "bounded_slowdown_mean"}


@dataclass(frozen=True)
class Adversary:
    """Find small instances on which agents do worst relative to others, by simulated annealing.

    One search per pair of an agent and a baseline from --against. The worst instance is written to
    DIR/AGENT-against-BASELINE/worst.json, a workload for `desim run PROBLEM --trace`. The search state is stored beside
    it: run the same command again to continue after an interruption.

    Examples::

        desim adversary dag --agents heft --against cpop,dls --out worst
        desim run dag --trace worst/heft-against-cpop/worst.json --agent heft
        desim adversary batch --agents easy-fcfs --against conservative-fcfs --objective waiting_time_max
    """

    problem: Positional[Literal["dag", "batch"]]
    """Problem to simulate."""
    agents: Annotated[str, arg(metavar="A,B,...")]
    """Agents whose worst instances are searched for; names from `desim list`."""
    against: Annotated[str, arg(metavar="C,D,...")]
    """Baselines: the agents to compare with."""
    objective: Annotated[
        str | None,
        arg(metavar="METRIC", help_behavior_hint="(default: dag makespan, batch bounded_slowdown_mean)"),
    ] = None
    """Metric used for the ratio agent/baseline: the search maximizes the ratio, or minimizes it if more is better."""
    steps: Annotated[int, arg(metavar="N")] = 1_000
    """Number of changes to try per restart."""
    restarts: Annotated[int, arg(metavar="N")] = 5
    """Number of random instances to start from."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Seed of all random numbers."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("adversary")
    """Directory for the instances."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Search, write and print."""
        given = self.agents, self.against
        agents, rivals = ([plugins.named_agent(self.problem, one)[0] for one in listed(names)] for names in given)
        pairs = [pair for pair in product(agents, rivals) if pair[0] != pair[1]]
        if not pairs:
            raise InvalidConfiguration(
                f"--agents {self.agents!r} --against {self.against!r}: expected at least one pair of different names"
            )
        objective = OBJECTIVES[self.problem] if self.objective is None else self.objective
        ratios = [Ratio(self.problem, *pair, objective) for pair in pairs]  # unknown names are found before any search
        found = [self._search(ratio, objective) for ratio in ratios]
        if self.as_json:
            print_json({"problem": self.problem, "objective": objective, "found": found})
            return 0
        rows = [
            [one["agent"], one["against"], *(f"{one[key]:,.4g}" for key in ("ratio", "value", "against_value"))]
            for one in found
        ]
        print_table(["agent", "against", "ratio", f"{objective}: agent", "against"], rows, words=(0, 1))
        print_text(f"instances: {self.out}")
        return 0

    def _search(self, ratio: Ratio, objective: str) -> dict[str, Any]:
        agent, rival = ratio.agents
        annealing = Annealing(self.steps, self.restarts, seed=self.seed)
        folder = self.out / re.sub(r"[^\w.+-]+", "_", f"{agent}-against-{rival}")
        total = self.restarts * (self.steps + 1)
        with progress(f"{agent} against {rival}", total, "instances") as listen:
            found = search(
                instances_of(self.problem),
                ratio,
                annealing,
                name=f"{self.problem}: {objective} of {agent} over {rival}",
                state=folder / "state.json",
                listen=listen,
            )
        file = folder / "worst.json"
        found.instance.write(file)
        value, against_value = ratio.values(found.instance)
        return {
            "agent": agent,
            "against": rival,
            "ratio": found.ratio,
            "value": value,
            "against_value": against_value,
            "instances": found.evaluations,
            "file": file,
        }
