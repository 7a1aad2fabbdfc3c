"""Answers that cannot be carried out: refused with time, job and reason, or taken as the end of the cycle."""

from __future__ import annotations

import math
from typing import Any

import pytest
from small_agents import FirstFit, Recorder, Scripted, make_jobs

from desim import InfeasibleAction, simulate
from desim.problems.batch import BatchCluster, Start, WaitForCores, WaitUntil
from desim.processes import Outage, planned_outages

# At 5.0, when job 3 arrives: job 1 is running on cores 0-1, core 2 and core 3 are free, job 2 is queued.
JOBS = make_jobs((0.0, 2, 10.0), (4.0, 3, 10.0), (5.0, 1, 10.0))
BEFORE = [[0], None]

REFUSED: list[tuple[Any, str]] = [
    (0, "job 1 cannot start: it is already running"),
    (Start(0, 0b1100), "job 1 cannot start: it is already running"),
    (1, "job 2 cannot start: it requests 3 cores and 2 are free"),
    (Start(1, 0b111), "job 2 cannot start: it requests 3 cores and 2 are free"),
    (77, "77 is not the row of a queued job"),
    ("3", "'3' is not the row of a queued job"),
    (Start(77, 1), "row=77.* is not the row of a queued job"),
    (2.5, "2.5 is not the row of a queued job"),
    (math.nan, "nan is not the row of a queued job"),
    ({}, "{} is not the row of a queued job"),
    ({3}, r"\{3\} is not the row of a queued job"),
    (Start([3], 1), r"row=\[3\].* is not the row of a queued job"),  # type: ignore[arg-type]
    (Start(2, 0b1), r"job 3 cannot start on cores \[0\].* 1 free cores"),
    (Start(2, 0b1100), r"job 3 cannot start on cores \[2, 3\].* 1 free cores"),
    (Start(2, 0b10000), r"job 3 cannot start on cores \[4\]"),
    (Start(2, 0), r"job 3 cannot start on cores \[\]"),
    (Start(2, -1), "job 3 cannot start on .*-1"),
    (Start(2, 4.0), "job 3 cannot start on .*4.0"),  # type: ignore[arg-type]
    (WaitUntil(4.0), r"WaitUntil\(time=4.0\) is not in the future"),
    (WaitUntil(5.0), "is not in the future"),
    (WaitUntil(math.nan), "is not in the future"),
    (WaitForCores(5), r"WaitForCores\(cores=5, arrivals=True\) awaits more cores than the 4 of the cluster"),
    ([2, 2], "job 3 cannot start: it is already running"),
    ([2, 1], "job 2 cannot start: it requests 3 cores and 1 are free"),
    ([[3]], r"\[3\] is not the row of a queued job"),
]


@pytest.mark.parametrize(("action", "reason"), REFUSED, ids=lambda value: repr(value)[:40])
def test_the_message_names_time_job_and_reason(action: Any, reason: str) -> None:
    with pytest.raises(InfeasibleAction, match=rf"time 5\.0: .*{reason}"):
        simulate(BatchCluster(JOBS, 4), Scripted([*BEFORE, action]))


@pytest.mark.parametrize(("action", "reason"), REFUSED, ids=lambda value: repr(value)[:40])
def test_forwarding_takes_it_as_the_end_of_the_cycle(action: Any, reason: str) -> None:
    def run(answer: Any) -> tuple[Any, Any]:
        agent = Recorder(Scripted([*BEFORE, answer], then=FirstFit()))
        return simulate(BatchCluster(JOBS, 4, infeasible="forward"), agent).jobs, agent.seen

    feasible_part = action[:1] if isinstance(action, list) and action[0] == 2 else None
    table, seen = run(action)
    expected_table, expected_seen = run(feasible_part)
    assert table.equals(expected_table)
    assert seen == expected_seen


def test_records_are_complete_up_to_an_infeasible_action(tmp_path: Any) -> None:
    from desim import Result

    with pytest.raises(InfeasibleAction) as caught:
        simulate(BatchCluster(JOBS, 4), Scripted([*BEFORE, 77]), out=tmp_path / "run")
    assert any("5.0" in note for note in caught.value.__notes__)
    result = Result.load(tmp_path / "run")
    assert result.info["status"] == "failed"
    assert result.jobs["status"].to_list() == ["running", "queued", "queued"]


def test_none_may_be_answered_for_ever() -> None:
    result = simulate(BatchCluster(JOBS, 4), Scripted([]))
    assert result.jobs["status"].to_list() == ["queued"] * 3
    assert result.jobs["waiting_time"].to_list() == [None] * 3


class TestWaitUntil:
    def test_a_cycle_opens_at_the_wanted_time(self) -> None:
        agent = Recorder(Scripted([[0], None, WaitUntil(7.25), [2]], then=FirstFit()))
        table = simulate(BatchCluster(JOBS, 4), agent).jobs
        assert table["starting_time"].to_list() == [0, 10, 7.25]
        assert [time for time, _, _ in agent.seen] == [0, 4, 5, 7.25, 10]

    def test_the_earliest_of_several_wishes_counts_and_the_others_do_no_harm(self) -> None:
        wishes = [[0], WaitUntil(9.0), WaitUntil(6.0), WaitUntil(9.0), [2]]
        agent = Recorder(Scripted(wishes, then=FirstFit()))
        table = simulate(BatchCluster(JOBS, 4), agent).jobs
        assert [time for time, _, _ in agent.seen][:5] == [0, 4, 5, 6, 9]
        assert table["starting_time"].to_list() == [0, 10, 9]

    def test_it_may_follow_starts_in_a_list(self) -> None:
        agent = Recorder(Scripted([[0], None, [2, WaitUntil(8.0)]], then=FirstFit()))
        simulate(BatchCluster(JOBS, 4), agent)
        assert [time for time, _, _ in agent.seen][:4] == [0, 4, 5, 8]

    def test_nothing_is_asked_if_the_queue_is_empty_then(self) -> None:
        agent = Recorder(Scripted([WaitUntil(3.0), [0]], then=FirstFit()))
        simulate(BatchCluster(make_jobs((0.0, 1, 1.0), (1.0, 1, 9.0)), 2), agent)
        assert [time for time, _, _ in agent.seen] == [0, 1, 2]

    def test_waiting_for_ever_is_waiting(self) -> None:
        result = simulate(BatchCluster(JOBS, 4), Scripted([[0], WaitUntil(math.inf), [2]], then=FirstFit()))
        assert result.jobs["starting_time"].to_list() == [0, 10, 5]


class TestWaitFor:
    JOBS = make_jobs((0.0, 3, 10.0), (0.0, 1, 6.0), (1.0, 3, 1.0), (2.0, 2, 1.0), (7.0, 1, 1.0))

    def asked(self, wait: WaitForCores, *more: object, **options: Any) -> list[float]:
        """Return when the agent is asked once it has started two jobs at 0 s and waits from 1 s on."""
        agent = Recorder(Scripted([[0, 1], [wait, *more]], then=FirstFit()))
        simulate(BatchCluster(self.JOBS, 4, **options), agent)
        return [time for time, _, _ in agent.seen]

    def test_nothing_is_asked_before_so_many_cores_are_free(self) -> None:
        assert self.asked(WaitForCores(3, arrivals=False))[:3] == [0, 1, 10]

    def test_nor_before_a_job_that_has_arrived_since_fits(self) -> None:
        assert self.asked(WaitForCores(3))[:3] == [0, 1, 7]

    def test_where_they_are_free_already_nothing_is_spared(self) -> None:
        assert self.asked(WaitForCores(0))[:4] == [0, 1, 2, 6]

    def test_a_time_may_be_waited_for_as_well(self) -> None:
        assert self.asked(WaitForCores(3, arrivals=False), WaitUntil(8.5))[:3] == [0, 1, 8.5]
        assert self.asked(WaitForCores(3, arrivals=False), WaitUntil(8.5))[3] == 10

    def test_outages_and_repairs_are_told_at_once(self) -> None:
        outage = planned_outages([Outage(4.0, 5.0, cores=[3])])
        assert self.asked(WaitForCores(3, arrivals=False), processes=[outage])[1:4] == [1, 4, 5]


class TestStart:
    def test_an_agent_chooses_the_cores(self) -> None:
        agent = Scripted([Start(0, 0b1010)], then=FirstFit())
        table = simulate(BatchCluster(JOBS, 4), agent).jobs
        assert table["allocated_resources"].to_list() == ["1 3", "0-2", "3"]

    def test_a_plain_row_takes_the_lowest_free_cores(self) -> None:
        agent = Scripted([Start(0, 0b0101), None, 2], then=FirstFit())
        assert simulate(BatchCluster(JOBS, 4), agent).jobs["allocated_resources"].to_list() == ["0 2", "0 2-3", "1"]
