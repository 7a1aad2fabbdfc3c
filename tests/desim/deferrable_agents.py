"""Agents for clusters of deferrable jobs that are shown plain numbers, and note what they were shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from desim.problems.deferrable import DeferrableObservation, Job, JobSet


class Seen(NamedTuple):
    """A job as an agent sees it."""

    job_id: int
    submission_time: float
    earliest_start: int
    latest_start: int
    duration: int
    requests: tuple[Any, ...]
    evictions: int
    start: int | None


class View(NamedTuple):
    """What an agent sees when a slot begins, as plain numbers."""

    slot: int
    current: list[Seen]
    future: list[Seen]
    running: list[Seen]
    capacity: list[Any]
    used: list[Any]
    capacity_history: list[list[Any]]
    used_history: list[list[Any]]


Choice = Callable[[View], Sequence[int] | None]


def seen(jobs: JobSet) -> list[Seen]:
    """Return a set of jobs as plain numbers, after a look at what it says twice."""
    rows = []
    columns = [jobs.job_id, jobs.submission_time, jobs.earliest_start, jobs.latest_start, jobs.duration]
    requests = map(tuple, jobs.requests.tolist())
    for *numbers, request, evictions, start in zip(*columns, requests, jobs.evictions, jobs.starting_time, strict=True):
        rows.append(Seen(*numbers, request, int(evictions), None if start != start else int(start)))
    assert list(jobs) == [Job(*row[:5], row.requests[0], row.requests[1:]) for row in rows]
    assert len(jobs) == len(rows)
    assert jobs.cores.tolist() == [row.requests[0] for row in rows]
    assert jobs.revenue.tolist() == [row.requests[0] * row.duration for row in rows]
    ends = [None if row.start is None else row.start + row.duration for row in rows]
    assert [None if end != end else end for end in jobs.finish_time.tolist()] == ends
    return rows


def view_of(observation: DeferrableObservation) -> View:
    sets = [seen(jobs) for jobs in (observation.current, observation.future, observation.running)]
    amounts = [
        array.tolist()
        for array in (
            observation.capacity,
            observation.used,
            observation.capacity_history,
            observation.used_history,
        )
    ]
    assert (observation.free == observation.capacity - observation.used).all()
    return View(observation.slot, *sets, *amounts)


class Showing:
    """Lets a function answer, and notes what it was shown."""

    name = "showing"

    def __init__(self, choose: Choice) -> None:
        self.choose = choose
        self.views: list[View] = []

    def act(self, observation: DeferrableObservation) -> Any:
        self.views.append(view_of(observation))
        return self.choose(self.views[-1])


def random_choice(seed: int, *, must_fit: bool) -> Choice:
    """Return an agent that starts any jobs in any order, or any that fit; the same ones when it is shown the same."""

    def choose(view: View) -> list[int] | None:
        rng = Random(f"{seed} {view.slot}")
        order = rng.sample(range(len(view.current)), len(view.current))
        kind = rng.choice(("fitting", "fitting", "some", "all", "none"))
        if kind == "none":
            return None
        if must_fit or kind == "fitting":
            return fitting(view, order)
        return order if kind == "all" else order[: rng.randint(0, len(order))]

    return choose


def fitting(view: View, order: Sequence[int]) -> list[int]:
    """Return the positions, in an order, of the jobs that fit beside those before them."""
    used, chosen = list(view.used), []
    for position in order:
        requests = view.current[position].requests
        after = [amount + request for amount, request in zip(used, requests, strict=True)]
        if all(not request or amount <= c for request, amount, c in zip(requests, after, view.capacity, strict=True)):
            used = after
            chosen.append(position)
    return chosen


def first_seen_first(view: View) -> list[int]:
    """Start what fits, in the order of becoming known."""
    return fitting(view, range(len(view.current)))


def never(view: View) -> None:
    """Start nothing."""


def everything(view: View) -> list[int]:
    """Start everything at once."""
    return list(range(len(view.current)))


class Scripted:
    """Gives the answers of a list, one a slot, then nothing; a function is asked for its answer."""

    name = "scripted"

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def act(self, observation: DeferrableObservation) -> Any:
        answer = self.answers[observation.slot] if observation.slot < len(self.answers) else None
        return answer(observation) if callable(answer) else answer


def all_of(observation: DeferrableObservation) -> range:
    """Start everything, as an answer of :class:`Scripted`."""
    return range(len(observation.current))


class FirstFit:
    """Starts what fits, in the order of becoming known."""

    name = "first-fit"

    def act(self, observation: DeferrableObservation) -> list[int]:
        used, chosen = observation.used.copy(), []
        for position, requests in enumerate(observation.current.requests):
            if (used + requests <= observation.limit).all():
                used += requests
                chosen.append(position)
        return chosen
