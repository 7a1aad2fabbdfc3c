"""SchedInspector as its program was released: backfilling, features, what is earned, who is asked how often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desim import simulate
from desim.agents.batch import create
from desim.agents.batch.inspector import Inspector, SchedInspector, SchedInspectorConfig
from desim.agents.batch.training import EpisodeOptions, SchedInspectorTraining, make_schedinspector_env
from desim.agents.learning.training import TrainingConfig
from desim.problems.batch import BatchCluster, Job
from desim.problems.batch.inspection import AcceptingAgent, Improvement, Inspection, ReleasedEncoder
from desim.validation import validate
from desim.workloads import lublin


def starts(agent: Any, jobs: list[Job], cores: int) -> list[float]:
    found: list[float] = simulate(BatchCluster(jobs, cores), agent).jobs.sort("job_id")["starting_time"].to_list()
    return found


class TestBase:
    #: Job 0 holds 2 of 4 cores until 10. Job 1 comes first by cores, needs 3, and can start at 10.
    HELD = (Job(0, 0.0, 2, 10.0, 10.0), Job(1, 1.0, 3, 5.0, 5.0))

    @pytest.mark.parametrize(
        ("job", "released", "easy"),
        [
            (Job(2, 2.0, 1, 7.0, 7.0), 2.0, 2.0),  # over at 9
            (Job(2, 2.0, 1, 8.0, 8.0), 10.0, 2.0),  # over at 10, when the other starts: not before
            (Job(2, 2.0, 1, 20.0, 20.0), 10.0, 2.0),  # on the core that the other leaves over
            (Job(2, 2.0, 2, 20.0, 20.0), 15.0, 15.0),
        ],
    )
    def test_beside_a_job_that_waits_only_what_ends_before_starts(self, job: Job, released: float, easy: float) -> None:
        jobs = [*self.HELD, job]
        assert starts(create("schedinspector-fcfs"), jobs, 4)[2] == released
        assert starts(create("inspector-fcfs"), jobs, 4)[2] == easy

    def test_others_come_in_order_of_arrival_whatever_the_priority(self) -> None:
        # Job 2 needs all 4 cores, and so can start at 10. At 4, three are free: job 3 came first, job 4 is shorter.
        jobs = [Job(0, 0.0, 3, 4.0, 4.0), Job(1, 0.0, 1, 10.0, 10.0), Job(2, 1.0, 4, 5.0, 5.0)]
        jobs += [Job(3, 2.0, 3, 3.0, 3.0), Job(4, 2.5, 1, 2.0, 2.0)]
        assert starts(SchedInspector("sjf"), jobs, 4) == [0.0, 0.0, 10.0, 4.0, 7.0]
        assert starts(Inspector("sjf"), jobs, 4) == [0.0, 0.0, 10.0, 6.0, 4.0]

    def test_a_chosen_job_keeps_its_place(self) -> None:
        # Job 2 comes first by cores once it is there, and would fit: the job that waits has the place.
        jobs = [Job(0, 0.0, 2, 10.0, 10.0), Job(1, 1.0, 4, 5.0, 5.0), Job(2, 2.0, 1, 20.0, 20.0)]
        assert starts(SchedInspector("smallest-first"), jobs, 4) == [0.0, 10.0, 15.0]
        assert starts(create("backfilling-smallest-first"), jobs, 4) == [0.0, 22.0, 2.0]

    def test_a_run_is_valid(self) -> None:
        jobs = lublin.generate(150, 32, seed=5, load=1.2, overestimate=3.0)
        assert validate(simulate(BatchCluster(jobs, 32), SchedInspector("sjf")), jobs).ok


def test_features_are_in_proportion_and_below_1() -> None:
    seen: list[Any] = []

    def judge(encoded: dict[str, Any]) -> int:
        seen.append(encoded["features"].tolist())
        return len(seen) % 3 == 0

    jobs = [Job(0, 0.0, 4, 7_200.0, 7_200.0), Job(1, 0.0, 1, 5.0, 5.0)]
    simulate(BatchCluster(jobs, 8, cycle="arrival"), SchedInspector("fcfs", judge))
    delay = 600 / 7_200
    one = 1 - 1e-5
    expected = [
        [0, 7_200 / 124_707, 0.5, 0, one, one, delay / 7_680],
        [0, 7_200 / 124_707, 0.5, 600 / 43_200, one, one, (delay + 60) / 7_680],
        [600 / 43_200, 7_200 / 124_707, 0.5, 1_200 / 43_200, one, one, (delay + 60) / 7_680],
    ]
    np.testing.assert_allclose(seen[:3], expected, rtol=1e-5)
    assert np.max(seen) < 1


@pytest.mark.parametrize(("own", "base", "earned"), [(4.0, 8.0, 0.5), (8.0, 4.0, -0.5), (1e6, 1.0, -1 + 1e-6)])
def test_an_improvement_is_divided_by_the_larger(own: float, base: float, earned: float) -> None:
    class Metrics:
        def __init__(self, value: float) -> None:
            self.value = value

        def metrics(self, **_: Any) -> dict[str, float]:
            return {"bounded_slowdown_mean": self.value}

    class Ended:
        seed = 0

        def finish(self, **_: Any) -> Metrics:
            return Metrics(own)

    improvement = Improvement(AcceptingAgent(Inspection(SchedInspector("sjf").inspection.base)), by_larger=True)
    improvement.reset(None)  # type: ignore[arg-type]  # it only forgets
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("desim.problems.batch.inspection.simulate", lambda *_, **__: Metrics(base))
        improvement.ended(Ended(), None)  # type: ignore[arg-type]  # what it asks of them
    assert improvement.pop_reward() == pytest.approx(earned)


TINY = SchedInspectorTraining(
    num_cores=32,
    episodes=EpisodeOptions(num_traces=1, trace_jobs=60, num_jobs=12),
    training=TrainingConfig(100, num_envs=3, num_steps=500, whole_episodes=True, validation_episodes=2),
)


class TestTraining:
    def test_rejections_are_unlimited_in_training_alone(self) -> None:
        limits = []
        for validation in (False, True):
            gym_env = make_schedinspector_env(TINY, validation=validation)
            assert isinstance(gym_env.encoder, ReleasedEncoder)
            gym_env.reset(seed=0)
            rejected = 0
            question = gym_env.inspection.question
            while rejected < 100 and gym_env.inspection.question == question._replace(rejections=rejected):
                gym_env.step(0)
                rejected += 1
                if gym_env.inspection.question is None or gym_env.inspection.question.row != question.row:
                    break
            limits.append(rejected)
        assert limits[1] <= 72
        assert gym_env.inspection.max_rejections == 72
        assert make_schedinspector_env(TINY).inspection.max_rejections is None

    def test_the_settings_are_the_program_s(self) -> None:
        learning, training = SchedInspectorTraining().learning, SchedInspectorTraining().training
        assert (learning.learning_rate, learning.last_rate, learning.clip_range, learning.epochs) == (
            3e-4,
            1.0,
            0.2,
            80,
        )
        assert (learning.discount, learning.gae_lambda, learning.entropy_coef) == (1.0, 0.97, 0.0)
        assert (training.num_envs, training.whole_episodes) == (100, True)
        policy = SchedInspectorConfig().policy(np.random.default_rng(0))
        assert [layer.out_features for layer in policy.actor[::2]] == [32, 16, 8, 2]
        assert policy.rates()["critic"] * learning.learning_rate == pytest.approx(1e-3)

    def test_it_trains_and_draws_its_actions(self, tmp_path: Path) -> None:
        result = TINY.train()
        TINY.write(tmp_path / "mine", result)
        agent = create(f"schedinspector:{tmp_path / 'mine'}")
        assert isinstance(agent, SchedInspector)
        assert not isinstance(create("inspector:desim-f1"), SchedInspector)
        assert isinstance(agent, Inspector)
        jobs = lublin.generate(60, 32, seed=5, load=1.2)

        def at(seed: int) -> list[float]:
            return simulate(BatchCluster(jobs, 32), agent, seed=seed).jobs["starting_time"].to_list()

        assert at(0) == at(0) != at(1)
