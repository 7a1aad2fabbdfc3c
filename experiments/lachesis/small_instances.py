"""One run on a small instance, with the optimum among the agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from desim.agents.dag import create
from desim.agents.dag.optimum import Optimum
from desim.experiments.lachesis.simulating import measure
from desim.sweep import Run
from desim.workloads import executors, random_dags

__all__ = ["OPTIMUM", "SmallSetting", "perform_small"]

OPTIMUM = "optimum"
#: Seconds for a proof; the best schedule so far and its bound are taken when they are over.
TIME_LIMIT = 60.0


@dataclass(frozen=True)
class SmallSetting:
    """One random layered DAG on a few executors of different speeds.

    Attributes
    ----------
    num_nodes, num_executors : int
        How small.
    ccr : float
        Ratio of mean transfer time to mean run time.
    check : bool
        Check the records with `desim.validation`.
    """

    num_nodes: int = 12
    num_executors: int = 3
    ccr: float = 1.0
    check: bool = False


def perform_small(run: Run) -> dict[str, Any]:
    """Simulate a run on a small instance.

    Parameters
    ----------
    run : Run
        Of a :class:`SmallSetting` and a Choice; besides the names of the registry there are ``optimum`` and
        ``optimum-without-duplicates``.

    Returns
    -------
    dict
        As of `desim.experiments.lachesis.simulating.measure`; with ``proved`` and ``bound`` for the optimum.
    """
    setting: SmallSetting = run.setting
    job = random_dags.generate(setting.num_nodes, mean_work=100.0, ccr=setting.ccr, seed=run.seed)
    machines = executors.heterogeneous(setting.num_executors, speeds=(1.0, 1.5, 2.0), seed=run.seed)
    if not run.agent.policy.startswith(OPTIMUM):
        return measure([job], machines, create(run.agent.policy), run)
    agent = Optimum(duplication=run.agent.policy == OPTIMUM, time_limit=TIME_LIMIT)
    outcome = measure([job], machines, agent, run)
    schedule = agent.schedules[0]
    return outcome | {"proved": schedule.status == "optimal", "bound": schedule.bound}
