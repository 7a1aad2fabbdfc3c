"""Colours and line styles: safe for colour-blind readers, the same for a policy in every figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from desim.exceptions import InvalidConfiguration

__all__ = ["DOWN_COLOR", "JOB_COLORS", "OTHER_COLOR", "WAITING_COLOR", "LineStyle", "line_styles"]

#: Qualitative colours for lines and bars: Okabe and Ito, "Color Universal Design", 2008, without the
#: yellow, which is too pale on white, ordered so that the first few differ most.
POLICY_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")

#: Qualitative colours for areas that carry dark text: the "light" scheme of Paul Tol,
#: "Colour schemes", SRON technical note 09-002, 2021, without its grey.
JOB_COLORS = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#44BB99", "#99DDFF", "#BBCC33", "#AAAA00")
OTHER_COLOR = "#DDDDDD"
WAITING_COLOR = "#C8C8C8"
DOWN_COLOR = "#A6A6A6"


class LineStyle(NamedTuple):
    """How a policy is drawn.

    Attributes
    ----------
    color : object
        A matplotlib colour.
    dashes : str
        A matplotlib line style.
    """

    color: Any
    dashes: str


def line_styles(names: Iterable[str], colors: Mapping[str, Any] | None = None) -> dict[str, LineStyle]:
    """Give every policy a colour and, once colours repeat, another line style.

    Parameters
    ----------
    names : iterable of str
        The policies. The style follows the position, so the same order gives the same styles.
    colors : mapping of str to colour, optional
        Colours that are fixed for some policies.

    Returns
    -------
    dict of str to LineStyle
        A style for each name.

    Raises
    ------
    InvalidConfiguration
        If a fixed colour is none that matplotlib knows.
    """
    from matplotlib.colors import is_color_like

    fixed = colors or {}
    for name, color in fixed.items():
        if not is_color_like(color):
            raise InvalidConfiguration(f"colors[{name!r}] is {color!r}, which is no matplotlib colour")
    styles = {}
    for position, name in enumerate(names):
        round_number, index = divmod(position, len(POLICY_COLORS))
        styles[name] = LineStyle(fixed.get(name, POLICY_COLORS[index]), DASHES[round_number % len(DASHES)])
    return styles
