"""Runs to draw, and what a reader of a figure would check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from desim import Phase, Result, at, simulate
from desim.problems.batch import BatchCluster, Job


class AnyThatFits:
    """Starts the first queued job that fits."""

    name = "any that fits"

    def act(self, observation):
        """Return the job, or None to wait."""
        fits = np.flatnonzero(observation.queue.requested_cores <= observation.free_cores)
        return int(observation.queue.row[fits[0]]) if len(fits) else None


class InOrder:
    """Starts the oldest job as soon as it fits."""

    name = "in order"

    def act(self, observation):
        """Return the job, or None to wait."""
        fits = observation.queue.requested_cores[0] <= observation.free_cores
        return int(observation.queue.row[0]) if fits else None


def outage(begin: float, end: float, cores: Iterable[int]):
    """Return a process that takes cores down for a while."""

    def process(problem) -> Iterator[Any]:
        yield at(problem.env, begin, Phase.CAPACITY)
        problem.fail(cores=cores)
        yield at(problem.env, end, Phase.CAPACITY)
        problem.repair(cores=cores)

    return process


def some_jobs(number: int, num_cores: int, *, seed: int = 0, gap: float = 30.0, run_time: float = 100.0) -> list[Job]:
    """Return random jobs of at most ``num_cores`` cores."""
    rng = np.random.default_rng(seed)
    submissions = np.cumsum(rng.exponential(gap, number))
    widths = rng.integers(1, num_cores + 1, number)
    run_times = rng.exponential(run_time, number) + 1.0
    users = rng.integers(0, 12, number)
    rows = zip(submissions.tolist(), widths.tolist(), run_times.tolist(), users.tolist(), strict=True)
    return [Job(i + 1, time, cores, 2 * length, length, user) for i, (time, cores, length, user) in enumerate(rows)]


def run(
    jobs: Iterable[Job], num_cores: int, *outages: Any, agent: Any = None, until: float = np.inf, **options
) -> Result:
    """Simulate jobs."""
    cluster = BatchCluster(jobs, num_cores, processes=outages, **options)
    return simulate(cluster, agent or AnyThatFits(), until=until)


def find(axes, gid: str) -> Any:
    """Return the collection of a name, or None."""
    found = [collection for collection in axes.collections if collection.get_gid() == gid]
    assert len(found) <= 1
    return found[0] if found else None


def boxes(axes, gid: str) -> np.ndarray:
    """Return the rectangles of a collection as rows of begin, end, lower and upper edge."""
    collection = find(axes, gid)
    if collection is None:
        return np.empty((0, 4))
    corners = np.array([path.vertices[:4] for path in collection.get_paths()]).reshape(-1, 4, 2)
    return np.column_stack([corners.min(axis=1), corners.max(axis=1)])[:, [0, 2, 1, 3]]


def legend(axes) -> list[str]:
    """Return the entries of the legend of a figure."""
    return [text.get_text() for box in axes.figure.legends for text in box.get_texts()]


def area(rectangles: np.ndarray) -> float:
    """Return the summed area of rectangles."""
    return float(((rectangles[:, 1] - rectangles[:, 0]) * (rectangles[:, 3] - rectangles[:, 2])).sum())


def _inked(text: Any) -> Bbox:
    """Return the box of a text without the empty lines at its end."""
    words, box = text.get_text(), text.get_window_extent()
    empty = len(words) - len(words.rstrip("\n"))
    return Bbox.from_extents(box.x0, box.y0 + box.height * empty / (words.count("\n") + 1), box.x1, box.y1)


def check_layout(figure: Figure) -> None:
    """Check that titles, labels, legends and marks lie inside the figure and not on each other."""
    figure.draw_without_rendering()
    texts = [text for axes in figure.axes for text in _outside(axes)]
    texts += [text for legend in figure.legends for text in legend.get_texts()]
    places = [(text, _inked(text)) for text in texts if text.get_text().strip() and text.get_visible()]
    for text, place in places:
        box = figure.bbox.padded(1.0)
        inside = box.x0 <= place.x0 and place.x1 <= box.x1 and box.y0 <= place.y0 and place.y1 <= box.y1
        assert inside, f"{text.get_text()!r} is cut off"
    for (one, a), (other, b) in combinations(places, 2):
        wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert min(wide, high) < 1.0, f"{one.get_text()!r} lies on {other.get_text()!r}"
    data = [axes.get_window_extent() for axes in figure.axes]
    for text in (text for legend in figure.legends for text in legend.get_texts()):
        assert not any(text.get_window_extent().overlaps(place) for place in data), f"{text.get_text()!r} covers data"


def _outside(axes) -> Iterator[Text]:
    yield from (axes.title, axes._left_title, axes._right_title, axes.xaxis.label, axes.yaxis.label)
    for axis, interval in ((axes.xaxis, axes.viewLim.intervalx), (axes.yaxis, axes.viewLim.intervaly)):
        low, high = sorted(interval)
        span = high - low
        for tick in axis.get_major_ticks():
            if low - 1e-6 * span <= tick.get_loc() <= high + 1e-6 * span:
                yield tick.label1
