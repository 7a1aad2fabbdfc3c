"""``desim list``: list problems, agents and workloads, and the catalogue of public workloads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from tyro.conf import Positional, arg

from desim import plugins
from desim.checks import check_choice
from desim.cli.options import JsonFlag
from desim.cli.output import print_json, print_table, print_text
from desim.problem import kinds

__all__ = ["List"]

#: What to list in place of a problem.
CATALOGUE = "workloads"


@dataclass(frozen=True)
class List:
    """List problems, agents and workloads, or the public workloads that `desim fetch` downloads.

    Examples::

        desim list
        desim list batch
        desim list workloads
        desim list --json
    """

    problem: Annotated[Positional[str], arg(metavar="PROBLEM|workloads", help_behavior_hint="(default: all)")] = ""
    """Problem whose agents and workloads to list, or workloads for the catalogue of public ones."""
    as_json: JsonFlag = False
    """Print JSON only."""

    def execute(self) -> int:
        """Print the lists."""
        if self.problem == CATALOGUE:
            return self._catalogue()
        names = [name for name, kind in kinds().items() if kind.agents]
        if self.problem:
            names = [check_choice("PROBLEM", self.problem, (*names, CATALOGUE))]
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

    def _catalogue(self) -> int:
        """Print the catalogue of public workloads, and which of them are here."""
        catalogue = plugins.catalogue()
        known = catalogue.entries()
        if self.as_json:
            print_json({"folder": catalogue.folder(), "catalogue": {n: _described(one) for n, one in known.items()}})
            return 0
        rows = [
            [name, one.problem, _count(one.jobs), _count(one.cores), "yes" if one.path else "", one.about]
            for name, one in known.items()
        ]
        print_table(["public workload", "problem", "jobs", "cores", "here", "what it is"], rows, words=(1, 4, 5))
        print_text(f"`desim fetch NAME` downloads one to {catalogue.folder()}; then use --trace NAME.")
        return 0


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _described(entry: Any) -> dict[str, Any]:
    """Return an entry of the catalogue, its address, and where its file is."""
    return {**asdict(entry), "url": entry.url, "path": entry.path}
