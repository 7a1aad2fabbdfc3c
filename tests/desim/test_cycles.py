"""When an agent is asked: which events of an instant share a scheduling cycle, and what an agent may rely on."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from small_agents import FirstFit, Recorder, Scripted, drive, make_jobs, random_jobs

from desim import InvalidConfiguration, Simulation, simulate
from desim.agents.batch import create
from desim.problems.batch import (
    AdvanceReservation,
    BatchCluster,
    BatchObservation,
    Job,
    QualityOfService,
    WaitForCores,
    WaitUntil,
)
from desim.problems.batch.cycles import next_multiple, parse_cycle
from desim.processes import Outage, planned_outages, stop_after
from tests.jobs import with_fields

CYCLES = ["arrival", "instant", "event", 3.0]


def asked(jobs: list[Job], num_cores: int, agent: Any, **options: Any) -> list[tuple[float, list[int], int]]:
    """Return time, queue and free cores of each decision."""
    recorder = Recorder(agent)
    simulate(BatchCluster(jobs, num_cores, **options), recorder)
    return recorder.seen


class Cautious(Scripted):
    """Start nothing before a time."""

    def __init__(self, time: float) -> None:
        super().__init__([])
        self.time = time

    def act(self, observation: BatchObservation) -> int | None:
        return None if observation.time < self.time else FirstFit().act(observation)


@pytest.mark.parametrize(
    ("cycle", "starts"),
    [("arrival", [0, 10, 9]), ("event", [0, 10, 9]), ("instant", [6, 1, 0]), (4, [12, 4, 0]), (100.0, [200, 100, 0])],
)
def test_shortest_first_among_jobs_that_arrive_together(cycle: Any, starts: list[int]) -> None:
    jobs = make_jobs((0.0, 1, 9.0), (0.0, 1, 5.0), (0.0, 1, 1.0))
    result = simulate(BatchCluster(jobs, 1, cycle=cycle), create("sjf"))
    assert result.jobs.sort("job_id")["starting_time"].to_list() == starts


@pytest.mark.parametrize(
    ("cycle", "seen"),
    [
        ("arrival", [(5, [3], 2), (5, [3, 4], 2), (5, [3, 4, 5], 2)]),
        ("instant", [(5, [3, 4, 5], 2)]),
        ("event", [(5, [3], 1), (5, [3], 2), (5, [3, 4], 2), (5, [3, 4, 5], 2)]),
        (3, [(6, [3, 4, 5], 2)]),
    ],
)
def test_two_ends_and_two_arrivals_at_one_instant(cycle: Any, seen: list[Any]) -> None:
    jobs = make_jobs((0.0, 1, 5.0), (0.0, 1, 5.0), (4.0, 2, 1.0), (5.0, 1, 1.0), (5.0, 1, 1.0))

    class StartsTwo:
        def act(self, observation: BatchObservation) -> int | None:
            return FirstFit().act(observation) if observation.time < 4.0 else None

    assert [row for row in asked(jobs, 2, StartsTwo(), cycle=cycle) if row[0] in (5, 6)] == seen


def test_between_two_ends_of_an_instant_the_second_job_is_expected_to_end_now() -> None:
    ends = []

    class Looks(FirstFit):
        def act(self, observation: BatchObservation) -> int | None:
            if observation.time == 5.0:
                ends.append(observation.running.expected_end.tolist())
            return super().act(observation)

    simulate(BatchCluster(make_jobs((0.0, 1, 5.0), (0.0, 1, 5.0), (1.0, 2, 1.0)), 2, cycle="event"), Looks())
    assert ends == [[5.0], []]


def test_a_period_asks_at_its_multiples_and_only_if_something_has_changed() -> None:
    jobs = make_jobs((0.5, 1, 2.0), (1.0, 1, 2.0), (17.0, 1, 9.0), (18.0, 1, 1.0))
    times = [time for time, _, _ in asked(jobs, 1, FirstFit(), cycle=2.5)]
    assert times == [2.5, 2.5, 5.0, 17.5, 20.0, 27.5]
    assert asked(make_jobs((1.0, 1, 1.0)), 1, Scripted([WaitUntil(6.0)], FirstFit()), cycle=5) == [
        (5, [1], 1),
        (10, [1], 1),
    ]


def test_multiples_of_a_period() -> None:
    assert next_multiple(0.0, 0.1) == 0.0
    assert next_multiple(7.0, 3.5) == 7.0
    assert next_multiple(7.1, 3.5) == 10.5
    for count in range(1, 2_000):
        assert next_multiple(count * 0.1, 0.1) == count * 0.1
        assert next_multiple(count * 0.1 + 0.01, 0.1) == (count + 1) * 0.1


@pytest.mark.parametrize("cycle", CYCLES)
def test_a_job_that_a_listener_submits_while_an_answer_is_carried_out_is_asked_for(cycle: Any) -> None:
    simulation = Simulation(BatchCluster(make_jobs((0.0, 1, 5.0)), 3, cycle=cycle))

    def submit(time: float, execution: Any) -> None:
        if execution.job.job_id < 3:
            simulation.problem.submit(Job(execution.job.job_id + 1, time, 1, 5.0, 5.0))

    simulation.problem.on("start", submit)
    drive(simulation, create("fcfs"))
    assert simulation.finish().jobs["starting_time"].to_list() == [0, 0, 0]


@pytest.mark.parametrize("cycle", CYCLES)
def test_a_run_that_is_stopped_asks_no_more(cycle: Any) -> None:
    cluster = BatchCluster(make_jobs(*[(0.0, 1, 1.0)] * 9), 9, cycle=cycle, processes=[stop_after("start", 4)])
    assert simulate(cluster, FirstFit()).jobs["starting_time"].count() == 4


@pytest.mark.parametrize("cycle", CYCLES)
def test_forks_continue_like_the_original(cycle: Any) -> None:
    jobs = [job._replace(submission_time=float(int(job.submission_time))) for job in random_jobs(40, 4)]
    simulation = Simulation(BatchCluster(jobs, 4, cycle=cycle))
    drive(simulation, create("easy"), 25)
    simulation.advance()
    fork = simulation.fork()
    known = simulation.fork(foresight=False)
    for one in (simulation, fork, known):
        drive(one, create("easy"))
    assert simulation.finish().jobs.equals(fork.finish().jobs)
    assert known.finish().jobs["status"].is_in(["completed"]).all()


@pytest.mark.parametrize("value", ["instance", 0, -1.0, float("inf"), None])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InvalidConfiguration, match="cycle: got"):
        BatchCluster([], 1, cycle=value)


def test_a_text_states_a_cycle() -> None:
    assert [parse_cycle(text) for text in ("instant", "arrival", "event")] == ["instant", "arrival", "event"]
    assert [parse_cycle(text) for text in ("60", "1e3")] == [60.0, 1_000.0]
    for text in ("0", "nan", "often"):
        with pytest.raises(InvalidConfiguration, match="cycle: got"):
            parse_cycle(text)


def test_runs_tell_their_cycle() -> None:
    told = [simulate(BatchCluster([], 1, cycle=cycle), "fcfs").info for cycle in ("event", 60)]
    assert told[0]["cycle"] == "event"
    assert "cycle_period" not in told[0]
    assert (told[1]["cycle"], told[1]["cycle_period"]) == ("periodic", 60.0)


class TestExpectedEnds:
    @pytest.mark.parametrize("cycle", CYCLES)
    @pytest.mark.parametrize("preempts", [False, True])
    def test_none_lies_in_the_past(self, cycle: Any, preempts: bool) -> None:
        class Checks:
            def __init__(self) -> None:
                self.agent = create("preemptive-fcfs" if preempts else "easy")

            def reset(self, *known: Any) -> None:
                if hasattr(self.agent, "reset"):
                    self.agent.reset(*known)

            def act(self, observation: BatchObservation) -> Any:
                ends, now = observation.running.expected_end, observation.time
                assert (ends >= now if cycle == "event" else ends > now).all()
                assert ends.tolist() == sorted(ends.tolist())
                return self.agent.act(observation)

        for seed in range(5):
            rng = Random(seed)
            jobs = [
                job._replace(run_time=job.requested_time * rng.choice((0.5, 1, 3, 40)))
                for job in random_jobs(40, 4, seed)
            ]
            levels = [QualityOfService("high", 1.0, preempts=("low",)), QualityOfService("low", mode="suspend")]
            jobs = with_fields(jobs, qos={job.job_id: rng.choice(("high", "low")) for job in jobs})
            qos = {"qos": levels}
            cluster = BatchCluster(jobs, 4, cycle=cycle, enforce_time_limit=False, **(qos if preempts else {}))
            simulate(cluster, Checks())


class TestWaits:
    @pytest.mark.parametrize("times", [(4.0, 7.0), (7.0, 4.0), (7.0, 4.0, 7.0)])
    def test_each_requested_time_is_kept(self, times: tuple[float, ...]) -> None:
        agent = Scripted([[WaitUntil(time) for time in times], None, None], FirstFit())
        seen = asked(make_jobs((0.0, 1, 1.0), (9.0, 1, 1.0)), 1, agent)
        assert [time for time, _, _ in seen][:4] == [0, 4, 7, 9]

    def test_requests_can_be_withdrawn(self) -> None:
        agent = Scripted([[WaitUntil(4.0), WaitUntil(7.0)], [WaitUntil(None), WaitUntil(8.0)], None], FirstFit())
        seen = asked(make_jobs((0.0, 1, 1.0), (9.0, 1, 1.0)), 1, agent)
        assert [time for time, _, _ in seen][:4] == [0, 4, 8, 9]

    def test_a_run_does_not_end_later_for_what_was_withdrawn(self) -> None:
        agent = Scripted([WaitUntil(50.0), WaitUntil(None), None])
        result = simulate(BatchCluster(make_jobs((0.0, 1, 1.0), (1.0, 1, 1.0)), 1), agent)
        assert result.info["end_time"] == 1.0

    @pytest.mark.parametrize(
        "others",
        [
            {"processes": [planned_outages([Outage(3.0, 5.0, cores=[1])])]},
            {"reservations": [AdvanceReservation(3.0, 5.0, cores=1)]},
        ],
    )
    def test_a_wait_for_cores_ends_with_a_change_of_capacity(self, others: dict[str, Any]) -> None:
        wait = [WaitForCores(2, arrivals=False)]
        agent = Scripted([0, wait, wait, wait], FirstFit())
        seen = asked(make_jobs((0.0, 1, 9.0), (1.0, 2, 1.0)), 2, agent, **others)
        assert [time for time, _, _ in seen] == [0, 1, 3, 5, 9]

    def test_it_ends_even_while_no_job_is_queued(self) -> None:
        agent = Scripted([[0, WaitForCores(2, arrivals=False)]], FirstFit())
        outages = [planned_outages([Outage(3.0, 4.0, cores=[1])])]
        seen = asked(make_jobs((0.0, 1, 9.0), (5.0, 1, 1.0)), 2, agent, processes=outages)
        assert [time for time, _, _ in seen] == [0, 5]

    def test_a_reservation_that_takes_only_failed_cores_is_an_event(self) -> None:
        outages = [planned_outages([Outage(1.0, 9.0, cores=[0, 1])])]
        reservations = [AdvanceReservation(3.0, 5.0, cores=2)]
        seen = asked(make_jobs((0.5, 2, 1.0)), 2, Cautious(9.0), processes=outages, reservations=reservations)
        assert [time for time, _, _ in seen] == [0.5, 1, 3, 5, 9]
