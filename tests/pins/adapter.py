"""Stored scenarios as runs: clusters and agents are made as those of the random scenarios in ``tests/properties``."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import desim.envs
from desim import Result, Simulation, simulate
from desim.validation import validate

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "properties"))

from everything import Scenario
from everything_draws import Drawn

from tests.pins import sites

__all__ = ["how_it_ended", "play", "run"]

desim.envs.register()


def run(problem: str, scenario: dict[str, Any], directory: Path) -> Result:
    """Simulate a scenario: in memory, streamed to a directory, saved to it and loaded, or in a fork.

    A ``"blind"`` fork knows nothing of what comes.
    """
    if problem == "sites":
        cluster, agent = sites.cluster(scenario), sites.agent(scenario)
    else:
        one = Scenario(0, problem, scenario["seed"], (), 0, _drawn(problem, scenario))
        cluster, agent = one.cluster(), one.agent()
    options = {"seed": scenario["seed"], "until": scenario.get("until", math.inf)}
    if scenario["mode"] in {"forked", "blind"}:
        return _forked(cluster, agent, scenario["after"], foresight=scenario["mode"] == "forked", **options)
    if scenario["mode"] == "streamed":
        return simulate(cluster, agent, out=directory / "run", **options)
    result = simulate(cluster, agent, **options)
    return Result.load(result.save(directory / "run")) if scenario["mode"] == "saved" else result


def _forked(cluster: Any, agent: Any, after: int, *, foresight: bool, **options: Any) -> Result:
    """Fork after some decisions, and let the agent go on in the fork."""
    simulation = Simulation(cluster, **options)
    if hasattr(agent, "reset"):
        agent.reset(simulation.problem.describe(), simulation.stream("agent"))
    count = 0
    while (decision := simulation.advance()) is not None:
        if count == after:
            simulation = simulation.fork(foresight=foresight)
            decision = simulation.advance()
            assert decision is not None
        decision.answer(agent.act(decision.observation))
        count += 1
    return simulation.finish(agent=getattr(agent, "name", type(agent).__name__))


def how_it_ended(problem: str, scenario: dict[str, Any], result: Result) -> dict[str, Any]:
    """Return how and when a run ended, and how often half of those of sites violate each rule of validation."""
    status = result.info["status"]  # "stalled" came later than the digests
    found = {"status": "complete" if status == "stalled" else status, "end_time": float(result.info["end_time"])}
    if problem == "sites" and scenario["mode"] != "blind" and not scenario["seed"] % 2:  # blind: as long as requested
        found["violations"] = dict(validate(result, sites.jobs(scenario)).counts)
    return found


def play(scenario: dict[str, Any]) -> dict[str, np.ndarray]:
    """Run an episode of an environment with any possible actions, and return what was seen and earned, step by step."""
    made = sites.episode(scenario) if "episode" in scenario else gymnasium.make(scenario["id"], **scenario["settings"])
    gym_env: Any = made.unwrapped
    rng = np.random.default_rng(scenario["seed"])
    seen, _ = gym_env.reset(seed=scenario["seed"])
    steps: list[dict[str, Any]] = [{f"observation.{name}": value for name, value in seen.items()}]
    over = False
    while not over:
        if isinstance(gym_env.action_space, gymnasium.spaces.Discrete):
            action = int(rng.choice(np.flatnonzero(gym_env.action_masks())))
        else:
            action = rng.uniform(-1, 1, gym_env.action_space.shape).astype(np.float32)
        seen, reward, terminated, truncated, info = gym_env.step(action)
        over = terminated or truncated
        step = {
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "elapsed": info.get("elapsed", -1.0),
        }
        steps.append({f"observation.{name}": value for name, value in seen.items()})
        steps[-1] |= {f"step.{name}": value for name, value in step.items()}
    return {name: np.array([step[name] for step in steps if name in step]) for name in steps[-1]}


def _drawn(problem: str, scenario: dict[str, Any]) -> Drawn:
    """Return the plain values of a scenario as they were drawn, with the words of today."""
    system, workload = dict(scenario["system"]), dict(scenario["workload"])
    if problem == "deferrable" and workload["kind"] == "rows":
        workload["rows"] = [(*row[:-1], tuple(row[-1])) for row in workload["rows"]]
    if system.get("stop_after") is not None:
        event, count = system["stop_after"]
        system["stop_after"] = ("arrival" if event == "submission" else event, count)
    return Drawn(system, workload, scenario["agent"], scenario["options"], scenario["until"])
