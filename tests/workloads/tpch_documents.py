"""Where the measured TPC-H queries are, and small made-up files of their form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).resolve().parents[3] / "shared" / "data" / "tpch"

Document = dict[str, Any]


def stages() -> Document:
    """Return a file of stages: query 1 is a -> c <- b, query 7 one stage without tasks in later waves."""

    def stage(number: int, parents: list[int], num_tasks: int, mean: float, rest: float | None) -> Document:
        means = {"mean_all": mean, "decima_rough": 2 * mean, "mean_first": 3 * mean, "mean_first_warm": None}
        return {
            "stage": number,
            "parents": parents,
            "num_tasks": num_tasks,
            "mean_rest": rest,
            "mean_fresh": 5.0,
        } | means

    return {
        "size_gb": 2,
        "time_unit": "ms",
        "queries": {
            "1": {
                "edges": [[0, 2], [1, 2]],
                "stages": [stage(0, [], 4, 1500.0, 1000), stage(1, [], 2, 500, None), stage(2, [0, 1], 1, 0.0, 0.0)],
            },
            "7": {"edges": [], "stages": [stage(0, [], 3, 2000.0, None)]},
        },
    }


def durations() -> Document:
    """Return the task durations to the stages."""

    def run(fresh: list[int], first: list[int], rest: list[int]) -> Document:
        return {"first": first, "rest": rest, "fresh": fresh}

    return {
        "1": [
            {"10": run([], [2000, 3000], [500, 500]), "2": run([3000], [3000, 1000], [1000, 1000])},
            {"2": run([], [500, 500], []), "10": run([], [500, 500], [])},
            {"2": run([], [0], [])},
        ],
        "7": [{"2": run([], [2000, 2000], [2000])}],
    }


def write(directory: Path, stage_file: object = None, duration_file: object = None) -> Path:
    """Write both files, objects as JSON and bytes as they are."""
    (directory / "durations").mkdir(exist_ok=True)
    plain = stages() if stage_file is None else stage_file
    (directory / "tpch_2g.json").write_bytes(plain if isinstance(plain, bytes) else json.dumps(plain).encode())
    packed = durations() if duration_file is None else duration_file
    path = directory / "durations" / "tpch_durations_2g.json.gz"
    path.write_bytes(packed if isinstance(packed, bytes) else gzip.compress(json.dumps(packed).encode()))
    return directory
