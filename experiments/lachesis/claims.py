"""What the paper says of its rules and of LACHESIS in words and numbers, beside what was measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from desim.experiments.claims import Claim, FixedRule
from desim.experiments.frame import Frame, agent_of, crossed_interval
from desim.experiments.lachesis.curves import DECIMA, LACHESIS, MADE, RANK_UP, RIVALS
from desim.experiments.lachesis.figure6 import LOSS, PANEL
from desim.experiments.learning_curves import COLUMN, is_flat
from desim.statistics import Estimate, mean_interval

FIFO, HEFT, TDCA, SJF, HRRN = "FIFO-DEFT", "HEFT", "TDCA", "SJF-DEFT", "HRRN-DEFT"
STREAM = (SJF, HRRN, RANK_UP, DECIMA)
NEAR_ONE, FLAT = 25.0, 10.0
"""Percent by which "close to 1" and "almost unchanged" may be off."""
POINTS, TIMES, FACTOR = 2.0, 0.2, 0.25
"""Tolerances: of leads in percent, of speedups, and of times of decisions as a part of the paper's."""
UNSETTLED = 20.0
"""Percent by which the gap in validation may differ between the last two quarters of a flat training."""
Means = Mapping[str, float]


def fixed_rules(frames: Mapping[str, Frame]) -> list[FixedRule]:
    """Return what the paper says of rules that does not hang on what was learned."""
    return [rule for figure in ("figure7", "figure8") if figure in frames for rule in _rules(figure, frames[figure])]


def _rules(figure: str, frame: Frame) -> Iterator[FixedRule]:
    if figure == "figure7":
        for column, jobs in (("1", "1 job"), ("20", "20 jobs")):
            ours = frame.estimate(MADE, column, HEFT, "slr")
            yield FixedRule(HEFT, f'figure 7, {jobs}: "close to 1"', "schedule length ratio", 1.0, ours, NEAR_ONE)
    else:
        ours = mean_interval(frame.values(MADE, "100", FIFO, "speedup") / frame.values(MADE, "20", FIFO, "speedup"))
        setting = 'figure 8: "almost unchanged" from 20 jobs on'
        yield FixedRule(FIFO, setting, "speedup of 100 jobs over that of 20", 1.0, ours, FLAT)


def claims(frames: Mapping[str, Frame]) -> list[Claim]:
    """Return what the paper claims of figures 6 to 9."""
    found = list(_training(frames["figure6"])) if "figure6" in frames else []
    parts = {"figure7": _small, "figure8": _large, "figure9": _stream}
    untrained = _untrained(frames.get("figure6"))
    return found + [claim for name, of in parts.items() if name in frames for claim in of(frames[name], untrained)]


def _untrained(frame: Frame | None) -> str:
    """Return why nothing can be said of LACHESIS yet; an empty text if its training has become flat."""
    flat, how = is_flat(frame, PANEL, LACHESIS, UNSETTLED)
    return "" if flat else how


def _training(frame: Frame) -> Iterator[Claim]:
    flat, how = is_flat(frame, PANEL, LACHESIS, UNSETTLED)
    losses = (f"{LOSS}, first", f"{LOSS}, last quarter")
    gaps = ("first", "lowest", "last")
    means = {name: float(frame.by_training(PANEL, COLUMN, LACHESIS, name).mean()) for name in (*losses, *gaps)}
    first, last = (means[name] for name in losses)
    before, best, end = (100.0 * means[name] for name in gaps)
    ours = (
        f"loss of the critic {first:.2g} at first, {last:.2g} in the last quarter; makespan above the bound "
        f"{before:.1f} %, best {best:.1f} %, at the end {end:.1f} %"
    )
    paper = "the loss falls, and is flat after 800 episodes"
    yield Claim("figure 6: training converges", paper, ours, is_judged=flat, in_order=last < first, reason=how)


def _small(frame: Frame, untrained: str) -> Iterator[Claim]:
    calibrated = all(rule.is_calibrated for rule in _rules("figure7", frame))
    yield _shorter(frame, "figure 7", 15.3, RIVALS, untrained if calibrated else "HEFT is not calibrated")
    speedups = (crossed_interval(frame.by_training(MADE, c, LACHESIS, "speedup")) for c in frame.columns(MADE))
    ours = max(speedups, key=lambda one: one.mean)
    reason = untrained or "it depends on the ratio, which is not stated"
    yield Claim("figure 7: largest speedup of LACHESIS", 6.8, ours, TIMES, is_judged=not untrained, reason=reason)
    yield _worst(frame, "figure 7", FIFO, RIVALS)
    means = _means(frame, "makespan")
    ranks = [1 + sorted((*RIVALS, LACHESIS), key=by.__getitem__).index(TDCA) for by in means]
    yield _order("figure 7: TDCA is ahead of FIFO-DEFT only", "fourth of five", ranks, lambda rank: rank == 4)
    apart = [round(100 * (by[DECIMA] / by[HEFT] - 1), 1) for by in means]
    paper = "close to each other, here within 5 %"
    yield _order("figure 7: Decima-DEFT above HEFT, %", paper, apart, lambda one: abs(one) <= 5)
    ratios = [round(by[LACHESIS], 2) for by in _means(frame, "slr")]
    paper = "close to 1, here up to 1.25"
    yield _order("figure 7: schedule length ratio of LACHESIS", paper, ratios, lambda one: one <= 1.25)
    yield from _times(frame, "figure 7", 14.0, 3.0)


def _large(frame: Frame, untrained: str) -> Iterator[Claim]:
    calibrated = all(rule.is_calibrated for rule in _rules("figure8", frame))
    why = untrained if calibrated else "FIFO-DEFT is not calibrated"
    yield _shorter(frame, "figure 8", 26.7, RIVALS, why)
    best = max((_lead(frame, c, RIVALS, "speedup") for c in frame.columns(MADE)), key=lambda one: one.mean)
    what = "figure 8: speedup of LACHESIS above the second best, %, at most"
    yield Claim(what, 35.2, best, POINTS, in_order=best.low > 0, is_judged=not why, reason=why)
    yield _worst(frame, "figure 8", FIFO, RIVALS)
    apart = [round(100 * (by[DECIMA] / by[HEFT] - 1), 1) for by in _means(frame, "makespan")]
    yield _order(
        "figure 8: Decima-DEFT above HEFT, %", "below it in most cases", apart, lambda one: one < 0, mostly=True
    )
    slr = _means(frame, "slr")
    for row in (LACHESIS, DECIMA):
        ratios = [round(by[row], 2) for by in slr]
        what = f"figure 8: schedule length ratio of {row}"
        yield _order(what, "between 1 and 2", ratios, lambda one: 1 <= one <= 2)
    steps = [round(b[TDCA] - a[TDCA], 2) for a, b in pairwise(slr)]
    what = "figure 8: schedule length ratio of TDCA, from point to point"
    yield _order(what, "ascends, nearly", steps, lambda one: one >= 0, mostly=True)
    yield from _times(frame, "figure 8", 30.0, 10.0)


def _stream(frame: Frame, untrained: str) -> Iterator[Claim]:
    worst, means = _worst(frame, "figure 9", HRRN, STREAM), _means(frame, "makespan")
    why = untrained if worst.in_order else "the order of the rules is not the paper's at this load"
    yield _shorter(frame, "figure 9", 7.4, STREAM, why)
    many = [by for column, by in zip(frame.columns(MADE), means, strict=True) if int(column) > 50]
    apart = [round(100 * (by[DECIMA] / by[RANK_UP] - 1), 2) for by in many]
    what = "figure 9: Decima-DEFT above rank-up-DEFT with more than 50 jobs, %"
    yield _order(what, "above it", apart, lambda one: one > 0)
    yield worst
    apart = [round(100 * (by[HRRN] / by[SJF] - 1), 2) for by in means]
    yield _order("figure 9: HRRN-DEFT above SJF-DEFT, %", "above it", apart, lambda one: one > 0)
    yield from _times(frame, "figure 9", 38.0, 15.0)


def _means(frame: Frame, metric: str) -> list[Means]:
    """Return the means of a metric by agent, over all its trainings, column by column."""
    agents = dict.fromkeys(map(agent_of, frame.rows(MADE)))
    return [{one: float(frame.by_training(MADE, c, one, metric).mean()) for one in agents} for c in frame.columns(MADE)]


def _lead(frame: Frame, column: str, rivals: Sequence[str], metric: str) -> Estimate:
    """Return by how many percent LACHESIS is better than the best rival of a column."""
    if metric == "makespan":
        lead = frame.against_best(MADE, column, LACHESIS, rivals, metric)[1]
        return lead._replace(mean=0.0 - lead.mean)
    return frame.against_best(MADE, column, LACHESIS, rivals, metric, better="higher")[1]


def _shorter(frame: Frame, figure: str, paper: float, rivals: Sequence[str], why: str) -> Claim:
    """Return the largest lead over the second best, with what rank-up-DEFT, which learns nothing, makes of it."""
    leads = {column: _lead(frame, column, rivals, "makespan") for column in frame.columns(MADE)}
    column = max(leads, key=lambda one: leads[one].mean)
    best, over = leads[column], _lead(frame, column, [RANK_UP], "makespan")
    what = f"{figure}: makespan of LACHESIS below the second best, %, at most"
    jobs = "1 job" if column == "1" else f"{column} jobs"
    beside = f"with {jobs}; there it is {over.mean:.1f} ± {over.half_width:.1f} % below rank-up-DEFT"
    reason = f"{beside}; {why}" if why else beside
    return Claim(what, paper, best, POINTS, in_order=best.low > 0, is_judged=not why, reason=reason)


def _worst(frame: Frame, figure: str, rule: str, rivals: Sequence[str]) -> Claim:
    """Return whether a rule has the longest makespans."""
    found = [max((*rivals, LACHESIS), key=by.__getitem__) for by in _means(frame, "makespan")]
    return _order(f"{figure}: the longest makespan", f"{rule}'s", found, lambda one: one == rule)


def _order(what: str, paper: str, told: Sequence[object], holds: Callable[..., bool], *, mostly: bool = False) -> Claim:
    """Return a claim in words, which has to hold at every point, or at more than half of them if the paper says so."""
    count = sum(map(holds, told))
    reason = f"holds at {count} of {len(told)} points"
    needed = len(told) // 2 + 1 if mostly else len(told)
    return Claim(what, paper, ", ".join(map(str, told)), in_order=count >= needed, reason=reason)


def _times(frame: Frame, figure: str, paper: float, slower: float) -> Iterator[Claim]:
    """Return the time of a decision at the largest number of jobs, and by how much Decima's is shorter."""
    column = frame.columns(MADE)[-1]
    ours = frame.estimate(MADE, column, LACHESIS, "decision_98")
    what, reason = f"{figure}: 98 % of LACHESIS' decisions within, ms", "processor time, another machine"
    yield Claim(what, paper, ours, FACTOR * paper, in_order=ours.mean <= paper, reason=reason)
    apart = frame.difference(MADE, column, LACHESIS, "decision_98", DECIMA)
    what, reason = f"{figure}: the same less that of Decima-DEFT, ms", "both networks are called in the same way here"
    yield Claim(what, slower, apart, FACTOR * slower, in_order=apart.low > 0, reason=reason)
