"""Figures of the gallery: desim's are unknown to pyplot, so that they are looked for among the variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageChops, ImageOps
from sphinx_gallery.scrapers import figure_rst

__all__ = ["scraper"]

DPI = 144
MARGIN = 14  # pixels

_seen: list[Figure] = []


def scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures that have been made since the block before, and return where they are."""
    paths = []
    for figure in _figures(list(block_vars["example_globals"].values())):
        if not any(figure is known for known in _seen):
            _seen.append(figure)
            path = next(block_vars["image_path_iterator"])
            _save(figure, path)
            paths.append(path)
    return figure_rst(paths, gallery_conf["src_dir"])


def _save(figure: Figure, path: str) -> None:
    """Save a figure without its empty margins; ``bbox_inches="tight"`` draws it twice to find them."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    seen = ImageChops.invert(drawn).getbbox()
    ImageOps.expand(drawn.crop(seen), MARGIN, "white").save(path)


def _figures(values: list[Any]) -> Iterator[Figure]:
    for value in values:
        for item in value if isinstance(value, list) else [value]:
            figure = item.get_figure(root=True) if isinstance(item, Artist) else None
            if isinstance(figure, Figure):
                yield figure
