"""Results in formats of other programs: CSV, Batsim's job table, Chrome's trace events."""

from desim.export.chrome_trace import to_chrome_trace
from desim.export.tables import to_batsim_csv, to_csv

__all__ = ["to_batsim_csv", "to_chrome_trace", "to_csv"]
