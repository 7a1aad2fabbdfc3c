"""
Train MaskablePPO on a log and compare it with EASY
===================================================

Stable-Baselines3 learns from the older part of a log. Then it schedules five windows of the newer part, as EASY does.
The script is not run with the documentation, because it takes minutes::

    python sb3_on_a_log.py KTH-SP2-1996-2.swf --steps 60000
"""

import argparse

import gymnasium
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from desim import simulate
from desim.agents.learning import PolicyAgent
from desim.problems.batch.env import TraceEpisodes
from desim.workloads import swf

METRICS = {
    "finished": ("jobs_finished", 1),
    "mean wait (s)": ("waiting_time_mean", 1),
    "bounded slowdown": ("bounded_slowdown_mean", 1),
    "p99 (h)": ("waiting_time_p99", 3_600),
    "longest (h)": ("waiting_time_max", 3_600),
}

parser = argparse.ArgumentParser()
parser.add_argument("log")
parser.add_argument("--steps", type=int, default=60_000)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

log = swf.read(options.log)
older, newer = log.jobs[:20_000], log.jobs[20_000:]


def make_env():
    """Return an environment with pieces of the older part of the log, each played until all its jobs are done."""
    return gymnasium.make(
        "desim.envs:desim/Batch-v0",
        jobs=older,
        num_cores=log.num_cores,
        num_jobs=200,
        window=(16, 0),
        skip_forced=True,
        reserve_after=0.0,
    )


# %%
# Eight environments share one network call per step. Rewards are scaled to the same size, whatever the log.

envs = VecNormalize(DummyVecEnv([make_env] * 8), norm_obs=False, gamma=0.999)
model = MaskablePPO(
    "MultiInputPolicy", envs, n_steps=256, batch_size=256, n_epochs=5, gamma=0.999, seed=options.seed, device="cpu"
)
model.learn(options.steps)

# %%
# The windows were not trained on. No window shares a job with another.

encoder = envs.get_attr("encoder")[0]
agents = {"easy": "easy", "easy-sjf": "easy-sjf", "ppo": PolicyAgent(encoder, model, skip_forced=True)}
windows = TraceEpisodes([newer], log.num_cores, num_jobs=1_000)
print("window", "agent", *METRICS, sep="\t")
for number in range(5):
    for name, agent in agents.items():
        metrics = simulate(windows.at(number * 1_000), agent).metrics()
        shown = [f"{metrics[metric] / unit:,.1f}" for metric, unit in METRICS.values()]
        print(number, name, *shown, sep="\t")
