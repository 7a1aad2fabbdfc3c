"""Figure 8: batch mode with large numbers of jobs."""

from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.lachesis.curves import Curves


@dataclass(frozen=True)
class Figure8(Curves):
    """Up to 100 jobs, all submitted at time 0."""

    title = "Figure 8: batch mode, 20 to 100 jobs"
    counts: ClassVar = (20, 40, 60, 80, 100)
