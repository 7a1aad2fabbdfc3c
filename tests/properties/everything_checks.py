"""What every scenario must withstand.

Always: the simulation ends without an error and says how, the records are valid, and the metrics are numbers where they
have a sample; an agent that cannot take part says so at once. Sometimes, as the scenario says: ``saved``, the records
are the same once they were written and read; ``streamed``, or were streamed to a directory as they came about;
``repeated``, the same seed gives the same tables; ``heard``, also with listeners for all events; ``forked``, a fork
that is given the same answers ends in the same way.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from everything import Scenario
from everything_metrics import wrong_metrics
from everything_names import looks_ahead

from desim import Result, Simulation, simulate
from desim.core import Decision
from desim.exceptions import DisregardedWarning, InvalidConfiguration, StalledWarning
from desim.validation import validate

__all__ = ["check"]


def check(one: Scenario) -> list[str]:
    """Run a scenario; an AssertionError, or another error, says what is wrong.

    Returns
    -------
    list of str
        The rules of validation that were checked on at least one row.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", StalledWarning)  # everything may be down for ever
        warnings.simplefilter("ignore", DisregardedWarning)  # any agent meets any feature
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)  # when it is imported
        return _check(one)


def _check(one: Scenario) -> list[str]:
    if one.refuses:
        return refused(one)
    result = run(one)
    report = validate(result, one.workload())
    assert report.ok, str(report)
    if must_end(one):
        left = set(result.jobs["status"]) & {"queued", "running"}
        assert not left, f"jobs are left, {left}: {result.jobs}"
        assert result.info["status"] == "complete", result.info
    if one.drawn.until == math.inf and "stop_after" not in one.drawn.system:
        assert result.info["status"] in {"complete", "stalled"}, result.info
    wrong = wrong_metrics(result)
    assert not wrong, "; ".join(wrong)
    for name in one.checks:
        CHECKS[name](one, result)
    return [rule for rule, rows in report.checks.items() if rows]


def refused(one: Scenario) -> list[str]:
    """Expect one sentence that names the agent, and says what it does not know and who does."""
    try:
        run(one)
    except InvalidConfiguration as error:
        said = str(error)
        assert one.refuses in said, said
        assert "\n" not in said, said
        return []
    raise AssertionError(f"{one.agent_name} takes part")


def must_end(one: Scenario) -> bool:
    """Tell whether a run goes on until no job is left.

    Whatever is down comes back then, and no agent waits for ever; a network of a split window may choose to.
    """
    system = one.drawn.system
    planned = system.get("outages", {}).get("outages", [])
    endless = any(end == math.inf for _, end, _ in planned) or "holding" in system
    early = one.drawn.until < math.inf or "stop_after" in system or system.get("num_slots") is not None
    return not (endless or early or one.agent_name.startswith("split-window:"))


def run(one: Scenario, cluster: Any = None, **options: Any) -> Result:
    """Simulate a scenario."""
    cluster = one.cluster() if cluster is None else cluster
    return simulate(cluster, one.agent(), seed=one.seed, until=one.drawn.until, **options)


def assert_same(result: Result, other: Result, what: str) -> None:
    """Compare all tables and the descriptions of two runs."""
    assert result.info == other.info, f"{what}: {result.info} and {other.info}"
    assert result.table_names == other.table_names
    for name in result.table_names:
        one, two = result.table(name), other.table(name)
        assert one.equals(two), f"{what}: the tables {name} differ\n{one}\n{two}"


def saved(one: Scenario, result: Result) -> None:
    with tempfile.TemporaryDirectory() as directory:
        loaded = Result.load(result.save(Path(directory) / "run"))
        assert_same(result, loaded, "saved and loaded")
        assert np.array_equal(*(list(run.metrics().values()) for run in (result, loaded)), equal_nan=True)
        report = validate(loaded, one.workload())
        assert report.ok, f"saved and loaded: {report}"


def streamed(one: Scenario, result: Result) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run(one, out=Path(directory) / "run")
        assert_same(result, Result.load(Path(directory) / "run"), "streamed and loaded")


def repeated(one: Scenario, result: Result) -> None:
    cluster, agent = one.cluster(), one.agent()
    again = simulate(cluster, agent, seed=one.seed, until=one.drawn.until)
    assert_same(result, again, "the same seed")
    if one.is_replayable:  # the same cluster and the same agent once more: neither may remember anything
        again = simulate(cluster, agent, seed=one.seed, until=one.drawn.until)
        assert_same(result, again, "the same cluster and agent")


def heard(one: Scenario, result: Result) -> None:
    cluster, count = one.cluster(), Counter[str]()
    for event in cluster.events:
        cluster.on(event, lambda time, subject, event=event: count.update([event]))
    assert_same(result, run(one, cluster), "with listeners")
    if one.problem == "batch":
        begun = len(result.jobs["starting_time"].drop_nulls())
        cuts = result.table("interruptions")
        again = cuts["outcome"].ne("lost").sum()  # requeued, preempted, or suspended
        unheard = cut_while_suspended(cuts)
        assert begun + again - unheard <= count["start"] <= begun + again, f"{count} and {begun} + {again} starts"


def cut_while_suspended(cuts: pl.DataFrame) -> int:
    """Count the executions that took no time after a suspension: jobs may have been cut before they could resume."""
    before = pl.col("outcome").shift().over("arrival_number") == "suspended"
    by_outage = pl.col("outcome").is_in(["requeued", "lost"])
    return len(cuts.filter(before & by_outage & (pl.col("starting_time") == pl.col("finish_time"))))


def forked(one: Scenario, result: Result) -> None:
    agent = one.agent()
    simulation = Simulation(one.cluster().for_agent(agent), seed=one.seed, until=one.drawn.until)
    name = getattr(agent, "name", type(agent).__name__)
    if looks_ahead(one.agent_name):
        agent.attach(partial(simulation.fork, foresight=False))
    if hasattr(agent, "reset"):
        agent.reset(simulation.problem.describe(), simulation.stream("agent"))
    answers = []
    while (decision := simulation.advance()) is not None:
        answers.append(copy(agent.act(decision.observation)))
        decision.answer(answers[-1])
    assert_same(result, simulation.finish(agent=name), "advanced by hand")
    if not answers:
        return
    original = Simulation(one.cluster().for_agent(agent), seed=one.seed, until=one.drawn.until)
    before = min(one.after, len(answers) - 1)
    for answer in answers[:before]:
        due(original).answer(answer)
    due(original)
    every = {
        "original": original,
        "fork": original.fork(),
        "replay": original.fork(problem=one.cluster().for_agent(agent)),
    }
    for answer in answers[before:]:  # in turns: none may have a part in another
        for simulation in every.values():
            due(simulation).answer(answer)
    for what, simulation in every.items():
        assert simulation.advance() is None, "a decision more"
        assert_same(result, simulation.finish(agent=name), what)


def due(simulation: Simulation) -> Decision:
    """Return the decision that is due."""
    decision = simulation.advance()
    assert decision is not None, "a decision less"
    return decision


CHECKS: dict[str, Callable[[Scenario, Result], None]] = {
    "saved": saved,
    "streamed": streamed,
    "repeated": repeated,
    "heard": heard,
    "forked": forked,
}
