"""``desim list``: list problems, agents and workloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from desim import plugins
from desim.checks import check_choice
from desim.cli.options import JsonFlag
from desim.cli.output import print_json, print_table, print_text
from desim.problem import kinds

__all__ = ["List"]


@dataclass(frozen=True)
class List:
    """List problems, agents and workloads.

    Examples::

        desim list
        desim list batch
        desim list --json
    """

    problem: Annotated[Positional[str], arg(metavar="PROBLEM", help_behavior_hint="(default: all)")] = ""
    """Problem whose agents and workloads to list."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Print the lists."""
        names = [name for name, kind in kinds().items() if kind.agents]
        if self.problem:
            names = [check_choice("PROBLEM", self.problem, names)]
        descriptions = {name: kinds()[name].description for name in names}
        agents = {name: plugins.describe_agents(name) for name in names}
        workloads = {name: plugins.describe_workloads(name) for name in names}
        if self.as_json:
            print_json({"problems": descriptions, "agents": agents, "workloads": workloads})
            return 0
        print_table(["problem", "what it is"], list(map(list, descriptions.items())), words=(1,))
        for name in names:
            print_table([f"agent for {name}", "what it does"], list(map(list, agents[name].items())), words=(1,))
            print_table([f"workload for {name}", "what it is"], list(map(list, workloads[name].items())), words=(1,))
        print_text("Name your own agents as MODULE:NAME and your own problems as MODULE:FUNCTION.")
        return 0
