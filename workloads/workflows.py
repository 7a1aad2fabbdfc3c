"""DAG jobs by name or file, for the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.problems.dag.job import Job
from desim.workloads import dax, tpch, wfformat
from desim.workloads._files import Pathish

__all__ = ["GENERATED", "descriptions", "read"]

#: Workloads that are drawn, not read.
GENERATED = ("tpch",)

_READERS: Mapping[str, Callable[..., Job]] = {".json": wfformat.read, ".dax": dax.read, ".xml": dax.read}


def descriptions() -> dict[str, str]:
    """Return every source, or pattern of files, with a line on it.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    return {
        "tpch": "Queries like those of TPC-H, as in LACHESIS, drawn from a seed.",
        "FILE.json, FILE.json.gz": "A recorded workflow in the WfFormat of WfCommons; several with commas between.",
        "FILE.dax, FILE.xml": "An abstract workflow of Pegasus, the same.",
    }


def read(path: Pathish, **options: Any) -> Job:
    """Read a workflow file of any known format.

    Parameters
    ----------
    path : str or path-like
        The suffix tells the format; behind it there may be ``.gz``.
    **options
        For :func:`desim.workloads.wfformat.read` or :func:`desim.workloads.dax.read`. Unless told otherwise, run times
        are those on an executor of the middle speed of LACHESIS, :data:`desim.workloads.tpch.REFERENCE_SPEED`, and a
        workflow may
        have several parts.

    Returns
    -------
    Job
        Sizes of data are in bytes.

    Raises
    ------
    InvalidConfiguration
        If the suffix is unknown.
    WorkloadError
        If there is no such file, it cannot be read, or its content makes no sense.
    """
    name = os.fspath(path)
    suffix = Path(str(name).removesuffix(".gz")).suffix
    if suffix not in _READERS:
        if str(name).isidentifier() and not Path(name).exists():
            raise WorkloadError(f"{name}: no such file, nor a generated workload (there is {', '.join(GENERATED)})")
        raise InvalidConfiguration(f"{name}: want a file with the suffix {', '.join(_READERS)}")
    return _READERS[suffix](path, **{"reference_speed": tpch.REFERENCE_SPEED, "allow_disconnected": True} | options)
