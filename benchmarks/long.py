"""Up to ten million jobs in one process: see `benchmarks.scaling`."""

from __future__ import annotations

from functools import partial

from benchmarks import scaling

main = partial(scaling.main, scaling.LONG)
