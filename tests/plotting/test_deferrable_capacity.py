"""What deferrable jobs hold against the capacity: what is drawn is what the tables say."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from batch_pictures import area, boxes, check_layout
from batch_pictures import run as run_batch
from deferrable_pictures import (
    AnyOf,
    Area,
    InOrder,
    Nobody,
    areas,
    crashed,
    failed,
    interrupted,
    legend,
    line,
    run,
    simple,
    some_jobs,
    spans,
    use,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from desim import InvalidConfiguration, Result
from desim.plotting import capacity_use
from desim.plotting._size_classes import MOST_CLASSES, size_classes
from desim.problems.deferrable import Job

SIZES = {"1 core": 1.0, "2 cores": 2.0, "4 cores": 4.0, "8 cores": 8.0}
EVICTIONS = ("never", "lost", "restarted")


@pytest.fixture(scope="module", params=EVICTIONS)
def result(request) -> Result:
    """Return a run with violations and, if there may be some, with evictions."""
    made = run(agent=AnyOf(0.5), eviction=request.param)
    assert made.table("slots")["violation_cores"].sum() > 0
    assert (len(made.table("evictions")) > 5) == (request.param != "never")
    return made


def column(result: Result, name: str) -> np.ndarray:
    return result.table("slots")[name].to_numpy()


def stacked(drawn: dict[str, Area], names) -> np.ndarray:
    """Return the top of layers, each of which begins where the one before ends."""
    top = np.zeros(len(next(iter(drawn.values())).above))
    for name in names:
        if name in drawn:
            assert drawn[name].below == pytest.approx(top)
            top = drawn[name].above
    return top


@pytest.mark.parametrize("resource", ["cores", "memory"])
def test_layers_are_what_jobs_of_each_size_hold(result, resource):
    axes = capacity_use(result, resource=resource)
    drawn = areas(axes)
    for name, size in SIZES.items():
        expected = use(result, resource, size=size)
        assert drawn[name].edges == list(range(31))
        assert drawn[name].above - drawn[name].below == pytest.approx(expected)
    assert stacked(drawn, SIZES) == pytest.approx(column(result, f"used_{resource}"))
    assert line(axes) == (list(range(31)), column(result, f"capacity_{resource}").tolist())
    assert axes.get_ylabel() == f"{resource} in use" and axes.get_xlim() == (0.0, 30.0)


def test_violations_are_the_part_above_the_capacity(result):
    axes = capacity_use(result)
    drawn = areas(axes)["violation"]
    used, capacity = column(result, "used_cores"), column(result, "capacity_cores")
    assert drawn.above == pytest.approx(used)
    assert drawn.below == pytest.approx(np.minimum(used, capacity))
    (patch,) = [patch for patch in axes.patches if patch.get_gid() == "violation"]
    assert to_hex(patch.get_facecolor()) == "#d55e00" and patch.get_hatch()
    over = int((used > capacity).sum())
    share = 100.0 * used.sum() / capacity.sum()
    assert axes.get_title("right") == f"{share:.3g} % of the capacity in use; exceeded in {over} of 30 slots"
    assert legend(axes) == ["capacity", *SIZES, "violation"]


def test_a_run_that_keeps_the_capacity_has_no_violation():
    axes = capacity_use(run(agent=InOrder(), eviction="lost"))
    assert "violation" not in areas(axes) and "violation" not in legend(axes)
    assert "exceeded" not in axes.get_title("right")


def test_all_jobs_in_one_area(result):
    axes = capacity_use(result, by=None)
    assert areas(axes)["all jobs"].above == pytest.approx(column(result, "used_cores"))
    assert not areas(axes)["all jobs"].below.any()
    assert legend(axes) == ["capacity", "all jobs", "violation"]


@pytest.mark.parametrize("resource", ["cores", "memory"])
def test_single_jobs_are_piled_up(result, resource):
    axes = capacity_use(result, by="job", resource=resource)
    drawn = boxes(axes, "jobs")
    work = sum(job[f"requested_{resource}"] * (end - begin) for job, begin, end, _ in spans(result))
    assert area(drawn) == pytest.approx(work)
    for slot, used in enumerate(column(result, f"used_{resource}").tolist()):
        here = drawn[(drawn[:, 0] <= slot) & (drawn[:, 1] > slot)]
        here = here[here[:, 2].argsort()]
        assert here[:, 3].max(initial=0.0) == pytest.approx(used)
        assert (here[:, 3] > here[:, 2]).all()
        assert here[:1, 2].sum() == 0.0 and here[1:, 2] == pytest.approx(here[:-1, 3])  # no gap, no overlap


def test_jobs_that_follow_each_other_differ_and_what_is_started_anew_keeps_its_colour():
    jobs = [Job(number, 0.0, 0, 9, 3, 1.0) for number in (1, 2, 3)]
    axes = capacity_use(simple(jobs, [3, 3, 2, 2, 3], InOrder(), eviction="restarted"), by="job")
    (collection,) = [found for found in axes.collections if found.get_gid() == "jobs"]
    drawn = [(*box, to_hex(face)) for box, face in zip(boxes(axes, "jobs"), collection.get_facecolor(), strict=True)]
    colors = {color for *_, color in drawn}
    assert len(colors) == 3 and "#ee8866" not in colors  # which is near that of a violation
    again = [(begin, end) for begin, end, *_, color in drawn if color == drawn[2][-1]]
    assert again == [(0.0, 2.0), (3.0, 6.0)]  # the third job is evicted after two slots, and begins anew


def test_rectangles_of_a_job_are_one_while_it_stays_where_it_is():
    jobs = [Job(1, 0.0, 0, 0, 4, 2.0), Job(2, 0.0, 0, 0, 2, 1.0), Job(3, 0.0, 0, 0, 4, 3.0)]
    drawn = boxes(capacity_use(simple(jobs, [9]), by="job"), "jobs")
    assert drawn.tolist() == [[0, 4, 0, 2], [0, 2, 2, 3], [0, 2, 3, 6], [2, 4, 2, 5]]


def test_identifiers_that_come_back_are_told_apart():
    first = Job(7, 0.0, 0, 0, 2, 4.0)
    second = Job(7, 5.0, 5, 9, 2, 1.0)
    made = simple([first, second], [4, 0, 0, 0, 0, 1, 0, 1], eviction="restarted")
    assert made.table("evictions")["job_id"].to_list() == [7, 7]
    drawn = areas(capacity_use(made))
    assert (drawn["4 cores"].above - drawn["4 cores"].below).tolist() == [4, 0, 0, 0, 0, 0, 0, 0]
    assert drawn["1 core"].above.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert drawn["violation"].above[6] == 1 and drawn["violation"].below[6] == 0


@pytest.mark.parametrize(("width", "bounds"), [(7, [0, 7, 14, 21, 28, 30]), (30, [0, 30]), (100, [0, 30])])
def test_means_over_bins(result, width, bounds):
    axes = capacity_use(result, bin_width=width)
    drawn = areas(axes)

    def means(values: np.ndarray) -> list[float]:
        return [values[first:last].mean() for first, last in pairwise(bounds)]

    assert line(axes) == (bounds, pytest.approx(means(column(result, "capacity_cores"))))
    used, violation = means(column(result, "used_cores")), means(column(result, "violation_cores"))
    assert stacked(drawn, SIZES) == pytest.approx(used)
    assert drawn["violation"].above == pytest.approx(used)
    assert drawn["violation"].above - drawn["violation"].below == pytest.approx(violation)
    assert drawn["8 cores"].above - drawn["8 cores"].below == pytest.approx(means(use(result, "cores", size=8.0)))
    assert axes.get_title("right").endswith(f"; means over {width} slots")
    piled = boxes(capacity_use(result, bin_width=width, by="job"), "jobs")
    assert area(piled) == pytest.approx(column(result, "used_cores").sum())


def test_means_are_drawn_for_long_runs_only():
    short, long = (capacity_use(run(some_jobs(5), number)) for number in (250, 251))
    assert len(line(short)[1]) == 250 and "means" not in short.get_title("right")
    assert len(line(long)[1]) == 51 and long.get_title("right").endswith("means over 5 slots")
    assert len(line(capacity_use(run(some_jobs(5), 251), bin_width=None))[1]) == 251


def test_a_window_of_slots(result):
    axes = capacity_use(result, slots=(8, 21))
    assert axes.get_xlim() == (8.0, 21.0)
    assert line(axes) == (list(range(8, 22)), column(result, "capacity_cores")[8:21].tolist())
    assert stacked(areas(axes), SIZES) == pytest.approx(column(result, "used_cores")[8:21])
    used, capacity = column(result, "used_cores")[8:21], column(result, "capacity_cores")[8:21]
    assert axes.get_title("right").startswith(f"{100.0 * used.sum() / capacity.sum():.3g} % of")
    assert axes.get_ylim() == pytest.approx((0.0, 1.06 * max(used.max(), capacity.max())))
    piled = boxes(capacity_use(result, slots=(8, 21), by="job"), "jobs")
    assert (piled[:, 0].min(), piled[:, 1].max()) == (8.0, 21.0) and area(piled) == pytest.approx(used.sum())
    past = capacity_use(result, slots=(40, 50))
    assert not past.patches and past.get_xlim() == (40.0, 50.0) and past.get_title("right") == ""


def test_several_agents_one_above_the_other_with_the_same_axes():
    results = {"in order": run(agent=InOrder()), "more": run(agent=InOrder(6)), "short": run(num_slots=12)}
    panels = capacity_use(results)
    assert [axes.get_title("left") for axes in panels] == list(results)
    assert len({axes.get_ylim() for axes in panels}) == len({axes.get_xlim() for axes in panels}) == 1
    highest = max(column(made, f"{kind}_cores").max() for made in results.values() for kind in ("used", "capacity"))
    assert panels[0].get_ylim() == pytest.approx((0.0, 1.06 * highest))
    for axes, made in zip(panels, results.values(), strict=True):
        assert stacked(areas(axes), SIZES) == pytest.approx(column(made, "used_cores"))
    assert [axes.get_xlabel() for axes in panels] == ["", "", "slot"]
    check_layout(panels[0].figure)


def test_several_resources_have_a_panel_each():
    results = {"a": run(), "b": run(agent=InOrder())}
    panels = capacity_use(results, resource=["memory", "cores"])
    assert [axes.get_ylabel() for axes in panels] == ["memory in use", "cores in use"] * 2
    for axes, (name, resource) in zip(panels, [(n, r) for n in "ab" for r in ("memory", "cores")], strict=True):
        assert stacked(areas(axes), SIZES) == pytest.approx(column(results[name], f"used_{resource}"))
    assert panels[0].get_ylim() == panels[2].get_ylim() and panels[1].get_ylim() == panels[3].get_ylim()
    check_layout(panels[0].figure)
    assert isinstance(capacity_use(results["a"], resource=("cores",)), list)
    assert capacity_use(results["a"], resource="memory").get_ylabel() == "memory in use"


@pytest.mark.parametrize("sizes", [(1, 2, 4), (1.5, 3.25), range(1, 65), (0.1, 0.2, 0.4, 0.8, 3, 5, 7)])
def test_every_job_is_in_a_layer_whatever_its_size(sizes):
    made = run(some_jobs(80, sizes=sizes))
    drawn = areas(capacity_use(made))
    names = [name for name in drawn if name != "violation"]
    assert 1 < len(names) <= MOST_CLASSES
    assert stacked(drawn, names) == pytest.approx(column(made, "used_cores"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=40))
def test_classes_of_sizes_hold_all_sizes_and_darken(sizes):
    amounts = np.array(sizes)
    classes = size_classes(amounts, "cpu")
    place = classes.of(amounts)
    assert len(classes.tops) == len(classes.names) == len(classes.colors) <= MOST_CLASSES
    assert place.max() < len(classes.tops) and (amounts <= classes.tops[place]).all()
    assert (amounts[place > 0] > classes.tops[place[place > 0] - 1]).all()
    light = [np.dot(to_rgb(color), (0.299, 0.587, 0.114)) for color in classes.colors]
    assert light == sorted(light, reverse=True) and len(set(light)) == len(light)


def test_names_of_classes():
    assert size_classes(np.array([4.0, 1.0, 1.0]), "cores").names == ["1 core", "4 cores"]
    assert size_classes(np.array([0.5]), "cpu").names == ["0.5 cpu"]
    eight = size_classes(np.arange(1.0, 9.0), "cores")
    assert eight.names == ["up to 1 cores", "above 1 to 2", "above 2 to 4", "above 4 to 8"]
    assert eight.of(np.array([1.0, 2.0, 3.0, 4.0, 8.0])).tolist() == [0, 1, 2, 2, 3]


def test_a_run_that_was_cut_shows_what_it_has():
    for made, slots in ((interrupted(9), 9), (run(until=7.5), 8), (failed(9), 9), (run(num_slots=None), None)):
        axes = capacity_use(made)
        assert stacked(areas(axes), SIZES) == pytest.approx(column(made, "used_cores"))
        assert stacked(areas(axes), SIZES) == pytest.approx(use(made, "cores"))
        piled = boxes(capacity_use(made, by="job"), "jobs")
        assert area(piled) == pytest.approx(column(made, "used_cores").sum())
        assert slots is None or axes.get_xlim() == (0.0, float(slots))
    assert capacity_use(interrupted(9)).get_title("left") == "any of (interrupted)"


def test_what_a_crash_has_left_out_is_grey():
    whole = run(agent=AnyOf(0.5), eviction="restarted")
    even = pl.col("job_id") % 2 == 0
    part = crashed(whole, jobs=even)  # it has evictions of jobs that it does not know
    known = use(crashed(whole, jobs=even, evictions=even), "cores")
    for by in ("size", "job", None):
        axes = capacity_use({"x": part}, by=by)[0]
        missing = areas(axes)["not recorded"]
        assert missing.below == pytest.approx(known) and missing.above == pytest.approx(column(whole, "used_cores"))
        assert "not recorded" in legend(axes) and axes.get_title("left") == "x (running)"
        check_layout(axes.figure)
    nothing = capacity_use(crashed(whole, jobs=pl.lit(False), evictions=pl.lit(False)))
    assert areas(nothing)["not recorded"].above == pytest.approx(column(whole, "used_cores"))
    assert "not recorded" not in legend(capacity_use(whole))


def test_a_run_of_one_slot_and_one_of_none():
    for by in ("size", "job", None):
        none, one, idle = run([], None), run(num_slots=1), run(agent=Nobody())
        check_layout(capacity_use({"none": none, "one": one, "idle": idle}, by=by)[0].figure)
        axes = capacity_use(none, by=by)
        axes.figure.draw_without_rendering()
        assert not axes.patches and not len(boxes(axes, "jobs")) and axes.get_xlim() == (0.0, 1.0)
        assert legend(axes) == [] and axes.get_title("right") == ""
        assert len(line(capacity_use(one, by=by))[1]) == 1
        assert areas(capacity_use(idle, by=by)) == {}
    assert capacity_use(simple([], [0], num_slots=2)).get_title("right") == ""


def test_legends_and_labels_have_their_own_places():
    made = run(agent=AnyOf(0.5))
    for by in ("size", "job"):
        check_layout(capacity_use(made, by=by).figure)
    check_layout(capacity_use({f"an agent with the rather long name {number}": made for number in range(5)})[0].figure)
    check_layout(capacity_use(run(some_jobs(200, sizes=range(1, 400))), slots=(3, 9)).figure)


def test_a_saved_run_gives_the_same_picture(result, tmp_path):
    loaded = Result.load(result.save(tmp_path / "run"))
    assert {name: found.above.tolist() for name, found in areas(capacity_use(loaded)).items()} == {
        name: found.above.tolist() for name, found in areas(capacity_use(result)).items()
    }


def test_axes_of_the_caller_are_used(result):
    figure = Figure(figsize=(8, 6))
    mine = figure.subplots(2, 1)
    assert capacity_use(result, axes=mine[0]) is mine[0] and mine[0].get_xlabel() == "slot"
    assert capacity_use({"a": result, "b": result}, axes=mine) == list(mine)
    with pytest.raises(InvalidConfiguration, match="axes holds 2 Axes, want 1"):
        capacity_use(result, axes=mine)


def test_what_cannot_be_drawn_is_refused():
    made = run(num_slots=3)
    cores = simple([], [1], num_slots=3)
    with pytest.raises(InvalidConfiguration, match=r"resource is 'gpu', but results\['a'\] has 'cores', 'memory'"):
        capacity_use({"a": made}, resource="gpu")
    with pytest.raises(InvalidConfiguration, match=r"resource is 'memory', but results\['b'\] has 'cores'"):
        capacity_use({"a": made, "b": cores}, resource=["cores", "memory"])
    for wrong in ([], ["cores", "cores"], [None, "cores"]):
        with pytest.raises(InvalidConfiguration, match="want one name, or several that differ"):
            capacity_use(made, resource=wrong)
    with pytest.raises(InvalidConfiguration, match="resource is 3"):
        capacity_use(made, resource=3)
    with pytest.raises(InvalidConfiguration, match="by is 'user'"):
        capacity_use(made, by="user")
    for width in (0, -1, 2.5, "wide", float("nan"), float("inf"), [2], True):
        with pytest.raises(InvalidConfiguration, match="bin_width is "):
            capacity_use(made, bin_width=width)
    for slots in ((3, 3), (-1, 4), (0.5, 2), (1,), 5):
        with pytest.raises(InvalidConfiguration, match=r"slots is .*whole numbers"):
            capacity_use(made, slots=slots)
    with pytest.raises(InvalidConfiguration, match="the problem 'batch', want 'deferrable'"):
        capacity_use(run_batch([], 4))
    with pytest.raises(InvalidConfiguration, match="empty mapping"):
        capacity_use({})
    with pytest.raises(InvalidConfiguration, match="results is 3"):
        capacity_use(3)


def test_pyplot_stays_unknown():
    code = (
        "import sys\n"
        "from desim import plotting, simulate\n"
        "from desim.problems.deferrable import DeferrableCluster, Job\n"
        "assert 'matplotlib' not in sys.modules\n"
        "class Nobody:\n"
        "    def act(self, observation): return None\n"
        "result = simulate(DeferrableCluster([Job(1, 0, 1, 2, 3, 4.0)], [2]), Nobody())\n"
        "plotting.capacity_use(result).figure.draw_without_rendering()\n"
        "plotting.job_windows(result).figure.draw_without_rendering()\n"
        "plotting.known_work(result).figure.draw_without_rendering()\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
