"""What objects look like at a prompt and in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

import desim.envs  # noqa: F401 - registers the environments
from desim import Result, Simulation, simulate
from desim.plugins import create_agent, describe_agents
from desim.problem import kinds
from desim.problems.batch import BatchCluster, Job
from desim.scenario import system_of
from desim.validation import validate
from desim.workloads import lublin, swf

PROBLEMS = ("batch", "dag", "deferrable", "multiserver")


@pytest.mark.parametrize("problem", PROBLEMS)
def test_nothing_is_longer_than_a_line(problem: str) -> None:
    """Problem, agent, result and report of every problem."""
    system = system_of(problem)
    agent = create_agent(problem, system.default_agent or "")
    made = system.instance(system.options()).make(agent)
    result = simulate(made, agent)
    for shown in (made, agent, result, validate(result)):
        assert len(repr(shown)) < 200 and " object at 0x" not in repr(shown) and "\n" not in repr(shown)
        html: Any = shown
        assert len(html._repr_html_()) < 6_000
    assert result.info["agent"] in repr(agent) and "ok=True" in repr(validate(result))
    assert kinds()[problem].metrics.headline[0] in result._repr_html_()


def test_problems_show_arguments_that_are_not_at_their_defaults() -> None:
    """And how many jobs there are, unless they can be read once only."""
    jobs = [Job(1, 0.0, 1, 5.0, 5.0)] * 1_234
    assert repr(BatchCluster(jobs, 64)) == "BatchCluster(jobs=[1,234], num_cores=64)"
    assert repr(BatchCluster(iter(jobs), 64, too_wide="reject")) == (
        "BatchCluster(jobs=..., num_cores=64, too_wide='reject')"
    )
    assert "<td style='text-align:left'>64</td>" in BatchCluster(jobs, 64)._repr_html_()


def test_a_trace_shows_its_size(tmp_path: Path) -> None:
    """Where it was megabytes of jobs."""
    path = tmp_path / "log.swf"
    swf.write(path, lublin.generate(3_000, 64, seed=1), header={"MaxProcs": 64})
    trace = swf.read(path)
    assert repr(trace).startswith("Trace(jobs=3000, num_cores=64, days=") and len(repr(trace)) < 100
    assert "offered_load=" in repr(trace)
    assert "<th style='text-align:left'>jobs</th><td style='text-align:left'>3,000</td>" in trace._repr_html_()


def test_a_report_shows_totals_and_reasons(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    rows = ["1 0 -1 9 2 -1 -1 2 9 -1 1 -1 -1 -1 -1 -1 -1 -1 7", "2 1 -1 9 2 -1 -1 2 9 -1 1 -1 -1 -1 -1 -1 1 5 7"]
    path.write_text("\n".join(["; MaxProcs: 8", *rows, ""]))
    report = swf.read(path).report
    assert repr(report) == "<SWFReport 2 rows: 2 jobs, 0 dropped; 1 dependency, 2 extra_fields>"
    assert "more fields than the format" in report._repr_html_()


@pytest.mark.parametrize("name", ["Batch", "Dag", "Deferrable", "MultiServer"])
def test_environments_and_simulations_show_where_they_are(name: str) -> None:
    gym_env: Any = gymnasium.make(f"desim/{name}-v0").unwrapped
    assert repr(gym_env).startswith(f"{name}Env(id='desim/{name}-v0', time='not begun', actions=")
    gym_env.reset(seed=1)
    assert "not begun" not in repr(gym_env) and "action_mask" in gym_env._repr_html_()
    simulation = Simulation(BatchCluster([Job(1, 7.0, 1, 5.0, 5.0)], 4))
    simulation.advance()
    assert repr(simulation) == "Simulation(problem='BatchCluster', seed=0, time=7.0, pending=1)"


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_agent_shows_its_name(problem: str) -> None:
    """Those without a part to choose."""
    for name in describe_agents(problem):
        if name.islower() and name not in ("optimum", "hindsight"):
            agent: Any = create_agent(problem, name)
            assert repr(agent) == f"<{type(agent).__name__} {agent.name!r}>"


def test_a_result_without_an_end_has_no_metrics_to_show() -> None:
    """It is shown all the same, whatever is written in it."""
    result = Result({}, {"problem": "<batch>", "status": "running"})
    assert "&lt;batch&gt;" in result._repr_html_()
