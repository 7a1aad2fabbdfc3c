"""What the paper says of its figures; it prints no table of them."""

from __future__ import annotations

__all__ = ["FIGURE_6", "FIGURE_7", "FIGURE_8", "FIGURE_9"]

FIGURE_6 = ("The paper: the loss falls until about 800 episodes and is flat from there on.",)
FIGURE_7 = (
    "The paper, small batches: LACHESIS' makespan up to 15.3 % below the best rival's, speedup up to 6.8, SLR near 1; "
    "HEFT close to Decima-DEFT, TDCA ahead of FIFO-DEFT only; 98 % of LACHESIS' decisions within 14 ms.",
)
FIGURE_8 = (
    "The paper, large batches: LACHESIS' makespan up to 26.7 % below the second, its speedup up to 35.2 % above; "
    "FIFO-DEFT last; SLR of the learned agents between 1 and 2; 98 % of LACHESIS' decisions within 30 ms.",
)
FIGURE_9 = (
    "The paper, continuous: LACHESIS' makespan up to 7.4 % below the second; HighRankUp-DEFT ahead of Decima-DEFT from "
    "50 jobs on; SJF-DEFT ahead of HRRN-DEFT, which is last; 98 % of LACHESIS' decisions within 38 ms.",
)
