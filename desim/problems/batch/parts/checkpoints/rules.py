"""What checkpoints keep, for the validation rules of a batch run."""

from __future__ import annotations

import polars as pl

from desim.validation import Recorded

__all__ = ["kept"]


def kept(run: Recorded, worked: pl.Expr) -> pl.Expr | None:
    """Return the seconds that checkpoints have saved of the seconds that a job has worked; None without checkpoints."""
    interval = run.info.get("checkpoint_interval")
    return None if interval is None else worked // interval * interval
