"""What the writers of workload files share: plain numbers, writable jobs, all-or-nothing files."""

from __future__ import annotations

import errno
import gzip
import os
import secrets
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import IO, cast

from desim.exceptions import DesimError, WorkloadError
from desim.problems.batch.job import Job, check_job
from desim.workloads._columns import LARGEST
from desim.workloads._files import Pathish

__all__ = ["atomic_write", "check_writable", "plain_number"]


def plain_number(value: float) -> str:
    """Return the shortest text that reads back as the same number, without a point if it is whole."""
    return str(int(value)) if value == int(value) else repr(float(value))


def check_writable(job: Job) -> None:
    """Raise a clear error unless a job survives being written and read again.

    Parameters
    ----------
    job : Job
        The job to look at.

    Raises
    ------
    WorkloadError
        If the job is invalid, holds a number that the readers refuse, or runs although its
        requested time is 0, which the file formats take for unknown.
    """
    check_job(job)
    if job.requested_time == 0 < job.run_time:
        raise WorkloadError(f"job {job.job_id}: requested_time is 0, which means unknown in a workload file")
    if max(abs(value) for value in job) > LARGEST:
        raise WorkloadError(f"job {job.job_id}: {tuple(job)} holds a number beyond 1e15")


def atomic_write(path: Pathish, lines: Iterable[str]) -> None:
    """Write a text file that appears under its name only when it is complete.

    Parameters
    ----------
    path : str or path-like
        The file; a name that ends in ``.gz`` is compressed (equal content gives equal bytes).
    lines : iterable of str
        The text; a line feed is put behind each item. Consumed in batches, in constant memory.

    Raises
    ------
    WorkloadError
        If the file cannot be written. Whatever happens, no incomplete file is left.
    """
    try:
        target = Path(path)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if "\0" in os.fspath(path):
            raise ValueError("embedded null byte")
        draft = target.with_name(f".{secrets.token_hex(8)}.tmp")
        plain = draft.open("xb")
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error
    try:
        with plain:
            if target.name.endswith(".gz"):
                with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=plain, mtime=0) as packed:
                    _pour(lines, cast(IO[bytes], packed))
            else:
                _pour(lines, plain)
        draft.replace(target)
    except DesimError:
        raise
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


def _unwritable(path: Pathish, error: Exception) -> WorkloadError:
    return WorkloadError(f"{os.fspath(path)}: cannot be written: {getattr(error, 'strerror', None) or error}")


def _pour(lines: Iterable[str], file: IO[bytes]) -> None:
    source = iter(lines)
    while batch := list(islice(source, 4096)):
        batch.append("")
        file.write("\n".join(batch).encode("utf-8", "replace"))
