"""Many scenarios, in one or several processes, and a table of what they were."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat

from everything import PROBLEMS, Scenario, scenario
from everything_checks import check
from everything_names import agent_names

from desim.validation import rules_of

__all__ = ["RULES", "Summary", "check", "features", "run_all"]

RULES: dict[str, frozenset[str]] = {
    "batch": frozenset(rules_of("batch")),
    "dag": frozenset(rules_of("dag")),
    "deferrable": frozenset(rules_of("deferrable")),
    "multiserver": frozenset(rules_of("multiserver")),
}
"""The names of all rules of validation."""

TOGETHER = 125
"""Scenarios that a process takes on at once."""


def features(one: Scenario) -> Iterator[str]:
    """Yield what is particular to a scenario."""
    system, workload = one.drawn.system, one.drawn.workload
    yield f"{workload['kind']} workload"
    yield from (f"{name} in the workload" for name in ("own", "numpy", "iterator") if workload.get(name))
    yield from (f"{name}={value}" for name, value in system.items() if isinstance(value, bool | str))
    yield from (
        f"{value['kind']} {name}" for name, value in system.items() if isinstance(value, dict) and "kind" in value
    )
    yield from (name for name in ("stop_after", "gang", "holding", "num_slots") if system.get(name) is not None)
    yield from (f"agent with {name}" for name in one.drawn.options)
    yield "until" if one.drawn.until < float("inf") else "no end"


class Summary:
    """Counts what scenarios were, and what was checked.

    Attributes
    ----------
    counts : dict of str to dict of str to Counter
        By ``"agents"``, ``"rules"``, ``"features"`` and ``"checks"``, and then by problem.
    failures : list of str
        What was wrong, and with which scenario.
    seconds : float
        How long it took.
    """

    def __init__(self) -> None:
        kinds = ("agents", "rules", "features", "checks")
        self.counts = {kind: {problem: Counter[str]() for problem in PROBLEMS} for kind in kinds}
        self.failures: list[str] = []
        self.seconds = 0.0

    @property
    def number(self) -> int:
        """How many scenarios there were."""
        return sum(counter.total() for counter in self.counts["agents"].values())

    def run(self, number: int, made: Callable[[int], Scenario] = scenario) -> None:
        """Run one scenario, by its number and what makes it of that."""
        one = made(number)
        self.counts["agents"][one.problem][one.agent_name] += 1
        self.counts["features"][one.problem].update(features(one))
        self.counts["checks"][one.problem].update(one.checks)
        try:
            self.counts["rules"][one.problem].update(check(one))
        except Exception as error:
            self.failures.append(f"scenario {number}: {type(error).__name__}: {error}\n{one}")

    def take(self, other: Summary) -> None:
        """Add another one."""
        for kind, by_problem in self.counts.items():
            for problem, counter in by_problem.items():
                counter.update(other.counts[kind][problem])
        self.failures += other.failures

    def __str__(self) -> str:
        """Write tables."""
        lines = ["problem      scenarios    agents     rules  least checked"]
        for problem in PROBLEMS:
            agents, rules = (self.counts[kind][problem] for kind in ("agents", "rules"))
            rarest = min(rules.items(), key=lambda item: item[1], default=("none", 0))
            parts = f"{len(agents)}/{len(agent_names(problem))}", f"{len(rules)}/{len(RULES[problem])}"
            lines.append(
                f"{problem:<12} {agents.total():>9,}  {parts[0]:>8}  {parts[1]:>8}  {rarest[0]} ({rarest[1]:,})"
            )
        for kind in ("checks", "features"):
            for problem in PROBLEMS:
                found = sorted(self.counts[kind][problem].items())
                lines.append(f"{problem} {kind}: " + ", ".join(f"{name} {count:,}" for name, count in found))
        return "\n".join([*lines, f"{self.number:,} scenarios, {len(self.failures)} failures, {self.seconds:.0f} s"])


def _run_some(numbers: Sequence[int], made: Callable[[int], Scenario]) -> Summary:
    summary = Summary()
    for number in numbers:
        summary.run(number, made)
    return summary


@cache
def _one_thread() -> None:
    """Let torch use one thread: several processes share the machine."""
    import torch

    torch.set_num_threads(1)


def run_all(
    numbers: Iterable[int],
    *,
    made: Callable[[int], Scenario] = scenario,
    processes: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> Summary:
    """Run scenarios.

    Parameters
    ----------
    numbers : iterable of int
        Which.
    made : callable
        What makes a scenario of a number.
    processes : int
        In how many processes.
    say : callable
        Takes a line on each failure, and on progress every 1,000 scenarios.

    Returns
    -------
    Summary
        Of all of them.
    """
    wanted, summary, begin = list(numbers), Summary(), time.perf_counter()
    parts = [wanted[first : first + TOGETHER] for first in range(0, len(wanted), TOGETHER)]
    said = 0
    for part in _results(parts, made, processes):
        summary.take(part)
        for failure in part.failures:
            say(failure)
        if summary.number // 1_000 > said:
            said = summary.number // 1_000
            say(f"{summary.number:,} scenarios, {time.perf_counter() - begin:.0f} s")
    summary.seconds = time.perf_counter() - begin
    return summary


def _results(parts: list[list[int]], made: Callable[[int], Scenario], processes: int) -> Iterator[Summary]:
    if processes == 1:
        yield from map(_run_some, parts, repeat(made))
        return
    context = multiprocessing.get_context("spawn")  # a copy of this process would have torch's threads, but dead
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_one_thread) as pool:
        yield from pool.map(_run_some, parts, repeat(made))
