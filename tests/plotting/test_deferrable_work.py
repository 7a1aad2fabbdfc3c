"""Known work over time: what is drawn is what agents have seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from batch_pictures import check_layout
from batch_pictures import run as run_batch
from deferrable_pictures import AnyOf, Nobody, areas, cluster, crashed, interrupted, legend, run, simple, some_jobs
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result, simulate
from desim.plotting import known_work
from desim.plotting.known_work import LAYERS
from desim.problems.deferrable import Job

NAMES = list(LAYERS)


def layers(axes) -> np.ndarray:
    """Return how high the layers are; each begins where the one below it ends."""
    drawn = areas(axes)
    number = len(next(iter(drawn.values())).above)
    top, found = np.zeros(number), []
    for name in NAMES:
        if name in drawn:
            assert drawn[name].below == pytest.approx(top)
        before, top = top, drawn[name].above if name in drawn else top
        found.append(top - before)
    return np.array(found)


def watched(**options) -> tuple[Result, np.ndarray]:
    """Return a run, and the work of each layer as the agent and a listener have seen it."""
    agent, expired = AnyOf(0.3), np.zeros(30)
    system = cluster(some_jobs(80), **options)
    system.on("expiry", lambda time, job: expired.__setitem__(int(time), expired[int(time)] + job.revenue))
    made = simulate(system, agent)
    left, current, future = np.array(agent.left).T
    return made, np.array([left, current - expired, expired, future])


@pytest.mark.parametrize("options", [{}, {"eviction": "lost"}, {"eviction": "restarted"}, {"real_time": True}])
def test_layers_are_what_the_agent_has_seen(options):
    made, expected = watched(**options)
    axes = known_work(made)
    assert (expected.sum(axis=1) > 0).tolist() == [True, True, True, "real_time" not in options]
    assert layers(axes) == pytest.approx(expected)
    assert areas(axes)[NAMES[0]].edges == list(range(31))
    assert legend(axes) == [name for name, work in zip(NAMES, expected, strict=True) if work.any()]
    assert axes.get_ylim() == pytest.approx((0.0, 1.06 * expected.sum(axis=0).max()))


def test_what_has_expired_is_counted():
    made, expected = watched()
    expired = made.jobs.filter(pl.col("status") == "expired")
    text = known_work(made).get_title("right")
    assert text == f"{len(expired)} of {len(made.jobs)} jobs expired, {expected[2].sum():g} core-slots"
    assert known_work(simple([Job(1, 0.0, 0, 0, 3, 2.0)], [9])).get_title("right") == "1 job"


@pytest.mark.parametrize(("width", "bounds"), [(7, [0, 7, 14, 21, 28, 30]), (30, [0, 30])])
def test_means_over_bins(width, bounds):
    made, expected = watched()
    axes = known_work(made, bin_width=width)
    means = np.array([expected[:, first:last].mean(axis=1) for first, last in pairwise(bounds)]).T
    assert layers(axes) == pytest.approx(means)
    assert axes.get_title("right").endswith(f"; means over {width} slots")


def test_means_are_drawn_for_long_runs_only():
    short, long = (known_work(run(some_jobs(5), number)) for number in (250, 251))
    assert (layers(short).shape[1], layers(long).shape[1]) == (250, 51)


def test_a_window_of_slots():
    made, expected = watched()
    axes = known_work(made, slots=(8, 21))
    assert axes.get_xlim() == (8.0, 21.0) and layers(axes) == pytest.approx(expected[:, 8:21])
    assert areas(axes)[NAMES[0]].edges == list(range(8, 22))
    assert not known_work(made, slots=(40, 50)).patches


def test_several_runs_have_the_same_axes():
    results = {"any of": run(), "nobody": run(agent=Nobody()), "short": run(num_slots=12)}
    panels = known_work(results)
    assert [axes.get_title("left") for axes in panels] == list(results)
    assert len({axes.get_ylim() for axes in panels}) == len({axes.get_xlim() for axes in panels}) == 1
    assert not layers(panels[1])[0].any() and layers(panels[1])[2].any()
    check_layout(panels[0].figure)
    many = {f"an agent with the rather long name {number}": run() for number in range(4)}
    check_layout(known_work(many)[0].figure)


@pytest.mark.parametrize("amount", [0.1, 1e9])
def test_nothing_is_left_where_nothing_runs(amount):
    jobs = [
        Job(number, 0.0, number % 9, number % 9, 1 + number // 9 % 3, amount * (1 + number % 7)) for number in range(99)
    ]
    jobs.append(Job(99, 0.0, 19, 19, 1, amount))
    drawn = layers(known_work(simple(jobs, [1], num_slots=25)))
    assert not drawn[0, 11:].any() and (drawn[0, 1:11] > 0).all() and (drawn >= 0).all()


def test_the_first_resource_gives_the_unit():
    made = simple([Job(1, 0.0, 0, 2, 3, 2.0, (5.0,))], np.ones((3, 2)), Nobody(), resources=("gpus", "cores"))
    axes = known_work(made)
    assert axes.get_ylabel() == "known work (gpus x slots)" and layers(axes).sum(axis=0).tolist() == [6, 6, 6]
    assert axes.get_title("right") == "1 of 1 job expired, 6 gpus x slots"


def test_a_run_that_was_cut_shows_what_it_has():
    whole = layers(known_work(run()))
    for made, slots in ((interrupted(9), 9), (run(until=7.5), 8)):
        drawn = layers(known_work(made))
        assert drawn.shape == (4, slots) and drawn == pytest.approx(whole[:, :slots])
    assert known_work(interrupted(9)).get_title("left") == "any of (interrupted)"
    part = crashed(run(), jobs=pl.col("job_id") % 2 == 0, slots=pl.col("slot") < 20)
    drawn = layers(known_work({"x": part})[0])
    assert drawn[1:].sum(axis=0) == pytest.approx(whole[1:].sum(axis=0)[:20])  # these are sums of the slots


def test_a_run_of_one_slot_and_one_of_none():
    for results in (run(num_slots=1), run([], None), {"one": run(num_slots=1), "none": run([], None)}, run([])):
        drawn = known_work(results)
        check_layout((drawn[0] if isinstance(drawn, list) else drawn).figure)
    axes = known_work(run([], None))
    assert not axes.patches and axes.get_xlim() == (0.0, 1.0) and axes.get_ylim() == (0.0, 1.0)
    assert legend(axes) == [] and axes.get_title("right") == "0 jobs"


def test_a_saved_run_gives_the_same_picture(tmp_path):
    made = run(eviction="restarted")
    loaded = Result.load(made.save(tmp_path / "run"))
    assert (layers(known_work(loaded)) == layers(known_work(made))).all()


def test_axes_of_the_caller_are_used():
    mine = Figure(figsize=(8, 6)).subplots(2, 1)
    made = run(num_slots=5)
    assert known_work(made, axes=mine[0]) is mine[0] and mine[0].get_xlabel() == "slot"
    assert known_work({"a": made, "b": made}, axes=mine) == list(mine)


def test_what_cannot_be_drawn_is_refused():
    made = run(num_slots=3)
    for width in (0, 2.5, "wide", float("nan"), False):
        with pytest.raises(InvalidConfiguration, match="bin_width is "):
            known_work(made, bin_width=width)
    with pytest.raises(InvalidConfiguration, match=r"slots is .*whole numbers"):
        known_work(made, slots=(4, 2))
    with pytest.raises(InvalidConfiguration, match="the problem 'batch', want 'deferrable'"):
        known_work({"a": made, "b": run_batch([], 4)})
    with pytest.raises(InvalidConfiguration, match="empty mapping"):
        known_work({})
    with pytest.raises(InvalidConfiguration, match="axes holds 1 Axes, want 2"):
        known_work({"a": made, "b": made}, axes=Figure().subplots())
