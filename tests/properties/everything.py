"""Random end-to-end scenarios over all problems and agents, by number.

A scenario is a number: from it follow the problem, the agent, and with them a random system and workload, all as plain
values. What each must withstand is in `everything_checks`. To see one and run it alone::

    python tests/properties/everything.py 1234

Behind the first number, ``--count 100`` runs so many and writes a table of what they were, ``--processes 2`` in several
processes.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections import Counter
from collections.abc import Callable
from pprint import pformat
from typing import Any, NamedTuple

import everything_batch
import everything_dag
import everything_deferrable
import everything_multiserver
import numpy as np
from everything_draws import Drawn, Draws
from everything_names import agent_names, create

__all__ = ["PROBLEMS", "Scenario", "first_of_each_agent", "scenario"]

PARTS: dict[str, Any] = {
    "batch": everything_batch,
    "dag": everything_dag,
    "deferrable": everything_deferrable,
    "multiserver": everything_multiserver,
}
PROBLEMS = tuple(PARTS)
TURNS = ("batch", "dag", "deferrable", "batch", "dag", "multiserver", "batch", "deferrable", "dag", "multiserver")
"""Problems take turns like this: there are most agents for the first two."""


class Scenario(NamedTuple):
    """A system, its workload and an agent.

    Attributes
    ----------
    number : int
        From which all follows.
    problem : str
        One of :data:`PROBLEMS`.
    seed : int
        Of the simulation.
    checks : tuple of str
        What is looked at beside validation and metrics, see `everything_checks`.
    after : int
        After how many decisions a fork is made.
    drawn : Drawn
        The rest.
    """

    number: int
    problem: str
    seed: int
    checks: tuple[str, ...]
    after: int
    drawn: Drawn

    def __str__(self) -> str:
        """Show all values, and how to run it alone."""
        parts = {**self._asdict(), "drawn": self.drawn._asdict()}
        return (
            f"{pformat(parts, width=140, sort_dicts=False)}\nagain: python tests/properties/everything.py {self.number}"
        )

    @property
    def agent_name(self) -> str:
        """The agent, by its name in the registry."""
        return self.drawn.agent

    @property
    def refuses(self) -> str:
        """What the agent says where it cannot take part; empty if it can."""
        return ""

    @property
    def is_replayable(self) -> bool:
        """Whether the workload can be read twice."""
        return not self.drawn.workload.get("iterator", False)

    def cluster(self) -> Any:
        """Return the system, with a fresh workload and fresh processes."""
        return PARTS[self.problem].build(self.drawn)

    def workload(self) -> Any:
        """Return what the records are to be compared with; None if no table tells of all jobs."""
        return PARTS[self.problem].submitted(self.drawn)

    def agent(self) -> Any:
        """Return the agent; one with trained weights is loaded once."""
        agent = create(self.problem, self.drawn.agent)
        if self.problem != "deferrable":
            return agent
        return everything_deferrable.with_options(copy.copy(agent), self.drawn.options)


def scenario(number: int) -> Scenario:
    """Return a scenario by its number, from 0 on."""
    rounds, turn = divmod(number, len(TURNS))
    problem = TURNS[turn]
    names = agent_names(problem)
    place = rounds * TURNS.count(problem) + TURNS[:turn].count(problem)
    draws = Draws(np.random.default_rng([2305, number]))
    agent = names[place % len(names)]
    drawn = PARTS[problem].draw(draws, agent)
    checks = tuple(name for name, share in CHECKS.items() if draws.chance(share))
    if drawn.workload.get("iterator"):
        checks = tuple(name for name in checks if name != "forked")
    return Scenario(number, problem, draws.seed(), checks, draws.whole(0, 25), drawn)


CHECKS = {"saved": 0.1, "streamed": 0.06, "repeated": 0.12, "heard": 0.1, "forked": 0.14}
"""What is sometimes looked at, and how often."""


def first_of_each_agent() -> dict[tuple[str, str], int]:
    """Return the number of the first scenario of each agent, by problem and name."""
    found: dict[tuple[str, str], int] = {}
    wanted = sum(len(agent_names(problem)) for problem in PROBLEMS)
    turns = Counter[str]()
    number = 0
    while len(found) < wanted:
        problem = TURNS[number % len(TURNS)]
        names = agent_names(problem)
        found.setdefault((problem, names[turns[problem] % len(names)]), number)
        turns[problem] += 1
        number += 1
    return found


def main(made: Callable[[int], Scenario] = scenario) -> None:
    """Run scenarios from the command line."""
    from everything_runs import check, run_all

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int, help="of the first scenario")
    parser.add_argument("--count", type=int, default=1, help="how many, one after the other")
    parser.add_argument("--processes", type=int, default=1, help="how many at once")
    options = parser.parse_args()
    if options.count == 1:
        print(made(options.number), flush=True)
        print("valid by", ", ".join(check(made(options.number))))
        return
    numbers = range(options.number, options.number + options.count)
    summary = run_all(numbers, made=made, processes=options.processes, say=print)
    print(summary)
    sys.exit(1 if summary.failures else 0)


if __name__ == "__main__":
    main()
