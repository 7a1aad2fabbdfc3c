"""Colour schemes for colour-blind readers; a policy has the same colour in every figure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap

__all__ = [
    "DASHES",
    "DOWN_COLOR",
    "JOB_COLORS",
    "OTHER_COLOR",
    "POLICY_COLORS",
    "WAITING_COLOR",
    "Bars",
    "Coloring",
    "LineStyle",
    "color_categories",
    "color_neighbours",
    "color_numbers",
    "line_styles",
    "rgba",
    "share_colors",
]

#: Qualitative colours for lines and bars: Okabe and Ito, "Color Universal Design", 2008, without the
#: yellow, which is too pale on white, ordered so that the first few differ most.
POLICY_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Line styles, one for each pass through the colours.
DASHES = ("-", "--", ":", "-.")

#: Qualitative colours for areas that carry dark text: the "light" scheme of Paul Tol,
#: "Colour schemes", SRON technical note 09-002, 2021, without its grey.
JOB_COLORS = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#44BB99", "#99DDFF", "#BBCC33", "#AAAA00")
OTHER_COLOR = "#DDDDDD"  #: Colour of everything without its own colour.
WAITING_COLOR = "#C8C8C8"  #: Colour of waiting.
DOWN_COLOR = "#A6A6A6"  #: Colour of resources that are down or absent.

#: Colours of fractions and amounts, from none to all; the middle is the first policy colour, so that they look alike in
#: all figures.
SHARES = ("#FFFFFF", "#8CC3E6", "#0072B2", "#002B45")

#: Patterns of areas in the place of line styles.
HATCHES = (None, "////", "....", "xxxx")

#: Number of rectangles above which colours are assigned in turn in the order of the owners, which is faster.
MOST_NEIGHBOURS = 30_000


class LineStyle(NamedTuple):
    """Colour and line style of a policy, as matplotlib values."""

    color: Any
    dashes: str

    @property
    def hatch(self) -> str | None:
        """Pattern of areas, which have no line style; None for the policies whose colours are the first ones."""
        return HATCHES[DASHES.index(self.dashes) % len(HATCHES)]


def line_styles(names: Iterable[str], colors: Mapping[str, Any] | None = None) -> dict[str, LineStyle]:
    """Return a colour for every policy and, once colours repeat, another line style.

    Parameters
    ----------
    names : iterable of str
        Names of the policies. The style depends on the position, so the same order gives the same styles.
    colors : mapping of str to colour, optional
        Fixed colours of some policies.

    Returns
    -------
    dict of str to LineStyle
        Style for each name.

    Raises
    ------
    InvalidConfiguration
        If matplotlib does not know a fixed colour.
    """
    from matplotlib.colors import is_color_like

    fixed = colors or {}
    for name, color in fixed.items():
        if not is_color_like(color):
            raise InvalidConfiguration(f"colors[{name!r}]: got {color!r}, expected a matplotlib colour")
    styles = {}
    for position, name in enumerate(names):
        round_number, index = divmod(position, len(POLICY_COLORS))
        styles[name] = LineStyle(fixed.get(name, POLICY_COLORS[index]), DASHES[round_number % len(DASHES)])
    return styles


def share_colors() -> Colormap:
    """Return the colour map of fractions and amounts, with evenly decreasing lightness; missing values are grey."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("share", SHARES).with_extremes(bad=DOWN_COLOR)


def rgba(colors: Sequence[Any]) -> NDArray[np.float64]:
    """Return red, green, blue and opacity of each colour, with shape (n, 4)."""
    from matplotlib.colors import to_rgba_array

    return np.asarray(to_rgba_array(list(colors)), dtype=np.float64)


class Coloring(NamedTuple):
    """Colours of the bars of several runs, with their meaning.

    Attributes
    ----------
    faces : list of array, shape (n, 4)
        Red, green, blue and opacity of each bar, run by run.
    entries : list of (str, mapping)
        Legend entries.
    scale : ScalarMappable or None
        Scale for a colour bar.
    """

    faces: list[NDArray[np.float64]]
    entries: list[tuple[str, dict[str, Any]]]
    scale: ScalarMappable | None = None


def color_categories(runs: Sequence[pl.DataFrame], fixed: Sequence[str] = ()) -> Coloring:
    """Return colours by category; categories without a colour share a grey.

    Parameters
    ----------
    runs : sequence of polars.DataFrame
        For each run the ``category`` of its bars, as strings, and their ``weight``.
    fixed : sequence of str
        Categories that get colours, in this order; default: those with the largest weight.

    Returns
    -------
    Coloring
        Colours, with a legend of the categories that occur.
    """
    import polars as pl

    totals = pl.concat(runs).group_by("category").agg(pl.col("weight").sum())
    present = totals.sort("weight", "category", descending=[True, False])["category"].to_list()
    place = {category: index for index, category in enumerate(fixed or present[: len(JOB_COLORS)])}
    palette, others = rgba((*JOB_COLORS, OTHER_COLOR)), len(JOB_COLORS)
    faces = [palette[[place.get(category, others) for category in run["category"].to_list()]] for run in runs]
    entries = [(name, {"facecolor": palette[index]}) for name, index in place.items() if name in present]
    if len(present) > len(entries):
        entries.append((f"{len(present) - len(entries)} others", {"facecolor": OTHER_COLOR}))
    return Coloring(faces, entries)


def color_numbers(runs: Sequence[pl.Series], *, durations: bool) -> Coloring:
    """Return colours from a scale that is dark for small numbers, and logarithmic if the numbers span decades.

    Parameters
    ----------
    runs : sequence of polars.Series
        Numbers of the bars, run by run; null is grey.
    durations : bool
        Whether the numbers are durations in seconds, for which the scale starts at 0.

    Returns
    -------
    Coloring
        Colours, with a scale.
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize, SymLogNorm

    values = [run.cast(float).to_numpy() for run in runs]
    known = np.concatenate([part[np.isfinite(part)] for part in values])
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    norm = Normalize(low, high if high > low else low + 1.0)
    if durations and high > 200.0:
        norm = SymLogNorm(linthresh=10.0, linscale=0.3, vmin=0.0, vmax=high)
    elif not durations and low >= 1.0 and high > 20.0 * low:
        norm = LogNorm(low, high)
    scale = ScalarMappable(norm, colormaps["viridis"].with_extremes(bad=OTHER_COLOR))
    faces = [np.asarray(scale.to_rgba(np.ma.masked_invalid(part)), dtype=np.float64).reshape(-1, 4) for part in values]
    return Coloring(faces, [], scale)


class Bars(NamedTuple):
    """Bars of a run on lanes, in the order of their starts.

    Attributes
    ----------
    owners : sequence of int
        Owner of each bar, such as a job, as a number from 0.
    ranges : polars.DataFrame
        Ranges of lanes, such as cores: ``row`` (index of the bar, ascending), ``first`` and ``last``.
    lanes : int
        Number of lanes; lane indices are smaller.
    """

    owners: Sequence[int]
    ranges: pl.DataFrame
    lanes: int


def color_neighbours(runs: Sequence[Bars]) -> list[NDArray[np.float64]]:
    """Return colours for the bars of each owner, equal in all runs and different for neighbours if possible.

    Owners are coloured greedily by start in the first run that contains them. Neighbours of an owner are those that
    held a bar's lanes right before it, and those that hold the lane below or above at its start, in any run. If
    neighbours use all colours, the colour that occurs on the fewest adjacent lanes is chosen.

    Parameters
    ----------
    runs : sequence of Bars
        Runs of the same owners.

    Returns
    -------
    list of array of shape (n, 4)
        For each run, red, green, blue and opacity of each of its n bars.
    """
    palette, count = rgba(JOB_COLORS), len(JOB_COLORS)
    keys = [np.asarray(run.owners, dtype=np.int64) for run in runs]
    if any(len(owners) > MOST_NEIGHBOURS for owners in keys):
        return [palette[owners % count] for owners in keys]
    touching: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for run in runs:
        _touch(run, touching)
    chosen: dict[int, int] = {}
    previous = 0
    for key in dict.fromkeys(key for owners in keys for key in owners.tolist()):
        contact = np.zeros(count, dtype=np.int64)
        for other, lanes in touching[key].items():
            if other in chosen:
                contact[chosen[other]] += lanes
        order = (previous + 1 + np.arange(count)) % count  # ties go to the colour after the one chosen last
        chosen[key] = previous = int(order[np.argmin(contact[order])])
    return [palette[[chosen[key] for key in owners.tolist()]] for owners in keys]


def _touch(run: Bars, touching: defaultdict[int, Counter[int]]) -> None:
    """Count the lanes on which the owners of a run are neighbours, each at the start of its first bar."""
    # Owner of each lane; 0 means none yet. An extra lane on either side avoids special cases.
    held = np.zeros(run.lanes + 2, dtype=np.int64)
    pieces: list[list[tuple[int, int]]] = [[] for _ in run.owners]
    for row, first, last in run.ranges.select("row", "first", "last").iter_rows():
        pieces[row].append((first, last))
    seen: set[int] = set()
    for key, piece in zip(run.owners, pieces, strict=True):
        if key not in seen:
            seen.add(key)
            for first, last in piece:
                others, lanes = np.unique(held[first : last + 3], return_counts=True)
                for other, number in zip(others.tolist(), lanes.tolist(), strict=True):
                    if other:
                        touching[key][other - 1] += number
                        touching[other - 1][key] += number
        for first, last in piece:
            held[first + 1 : last + 2] = key + 1
