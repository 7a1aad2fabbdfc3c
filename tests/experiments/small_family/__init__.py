"""Studies that take no time: one that shows something, two that fail in different ways, one that is interrupted."""

from __future__ import annotations

from desim.experiments.paper import Family

FAMILY = Family(
    name="small",
    title="Small: three experiments",
    source="Nobody, <never>.",
    package="small_family",
    modules=("first", "second", "third", "fourth"),
)
