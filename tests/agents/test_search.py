"""Names and budgets of search agents."""

import time

import pytest

from desim.agents.search import Budget, SearchName
from desim.exceptions import InvalidConfiguration

OBJECTIVES = ("waiting_time_mean", "bounded_slowdown_mean")


@pytest.mark.parametrize(
    ("rest", "full"),
    [
        ("batch", "search:batch:waiting_time_mean:300"),
        ("batch:bounded_slowdown_mean", "search:batch:bounded_slowdown_mean:300"),
        ("batch:waiting_time_mean:0.1s", "search:batch:waiting_time_mean:0.1s"),
        ("batch:waiting_time_mean:0", "search:batch:waiting_time_mean:0"),
    ],
)
def test_names_are_read_and_written(rest: str, full: str) -> None:
    name = SearchName.parse("batch", rest, OBJECTIVES, Budget(moves=300))
    assert str(name) == full
    assert SearchName.parse("batch", full.removeprefix("search:"), OBJECTIVES, Budget(moves=1)) == name


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("dag", "unknown batch agent 'search:dag'; try for example search:batch:waiting_time_mean:300"),
        ("batch:waiting_time_mean:300:4", "try for example"),
        ("batch:makespan", "objective"),
        ("batch:waiting_time_mean:many", "budget: got 'many', expected moves such as 300 or seconds such as 0.1s"),
        ("batch:waiting_time_mean:0s", "seconds: got 0.0"),
        ("batch:waiting_time_mean:-1", "budget: got '-1'"),
    ],
)
def test_what_is_wrong_in_a_name_is_said(rest: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        SearchName.parse("batch", rest, OBJECTIVES, Budget(moves=300))


def test_a_budget_has_a_limit() -> None:
    with pytest.raises(InvalidConfiguration, match="budget: got neither moves nor seconds"):
        Budget()
    assert Budget(seconds=1).most_moves == float("inf")
    assert Budget(moves=7).most_moves == 7


def test_seconds_count_processor_time() -> None:
    used, never = Budget(seconds=0.02).timer(), Budget(moves=7).timer()
    time.sleep(0.05)
    assert 0.0 < used() < 1.0
    end = time.thread_time() + 0.03
    while time.thread_time() < end:
        pass
    assert used() > 1.0
    assert never() == 0.0
