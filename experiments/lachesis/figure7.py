"""Figure 7: batch mode with small numbers of jobs."""

from dataclasses import dataclass
from typing import ClassVar

from desim.experiments.lachesis.curves import Curves


@dataclass(frozen=True)
class Figure7(Curves):
    """Up to 20 jobs, all submitted at time 0."""

    title = "Figure 7: batch mode, 1 to 20 jobs"
    counts: ClassVar = (1, 2, 5, 10, 15, 20)
