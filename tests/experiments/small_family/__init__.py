"""Three experiments that take no time: one that shows something, and two that fail in different ways."""

from __future__ import annotations

from desim.experiments.families import Family

FAMILY = Family(
    name="small",
    title="Small: three experiments",
    source="Nobody, <never>.",
    package="small_family",
    modules=("first", "second", "third", "fourth"),
)
