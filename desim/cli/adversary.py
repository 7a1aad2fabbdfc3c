"""``desim adversary``: small instances on which an agent is as bad as can be beside others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from desim.cli.options import JsonFlag, listed
from desim.cli.output import print_json, print_table, print_text, progress
from desim.exceptions import InvalidConfiguration
from desim.sweep.adversary import Annealing, Ratio, instances_of, search

__all__ = ["Adversary"]

OBJECTIVES = {"dag": "makespan", "batch": "bounded_slowdown_mean"}


@dataclass(frozen=True)
class Adversary:
    """Look for small instances on which agents do worst beside others, by simulated annealing.

    For each agent and each rival one search. What it finds is DIR/AGENT-against-RIVAL/worst.json, a workload for
    `desim run PROBLEM --trace`; beside it is the state, from which the same command goes on after an interruption.

    Examples::

        desim adversary dag --agents heft --against cpop,dls --out worst
        desim run dag --trace worst/heft-against-cpop/worst.json --agent heft
        desim adversary batch --agents easy-fcfs --against conservative-fcfs --objective waiting_time_max
    """

    problem: Positional[Literal["dag", "batch"]]
    """What to simulate."""
    agents: Annotated[str, arg(metavar="A,B,...")]
    """Whose bad instances are looked for; see `desim list`."""
    against: Annotated[str, arg(metavar="C,D,...")]
    """Beside whom they are bad."""
    objective: Annotated[
        str | None, arg(metavar="METRIC", help_behavior_hint="(default: makespan, of batch bounded_slowdown_mean)")
    ] = None
    """Whose ratio is to be large, or small if more is better."""
    steps: Annotated[int, arg(metavar="N")] = 1_000
    """Changes to try in each restart."""
    restarts: Annotated[int, arg(metavar="N")] = 5
    """Instances to begin from."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Of all that is random."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("adversary")
    """Where to write the instances."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Search, write, print."""
        pairs = [pair for pair in product(listed(self.agents), listed(self.against)) if pair[0] != pair[1]]
        if not pairs:
            raise InvalidConfiguration(f"--agents {self.agents!r} against {self.against!r}: want two different names")
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
