"""One scale of colours for shares and amounts: white is nothing, dark is all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from desim.plotting._style import DOWN_COLOR

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

__all__ = ["share_colors"]

#: From nothing to all; the middle is the first colour of the policies, so that amounts look alike in all figures.
COLORS = ("#FFFFFF", "#8CC3E6", "#0072B2", "#002B45")


def share_colors() -> Colormap:
    """Return the colour map; its lightness falls evenly, and what has no share is grey."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("share", COLORS).with_extremes(bad=DOWN_COLOR)
