"""Directories and files that commands write to: what may be replaced, and what may not."""

from __future__ import annotations

from pathlib import Path

from desim.cli.provenance import PROVENANCE_FILE
from desim.exceptions import InvalidConfiguration, RecordError
from desim.records import INFO_FILE, read_info, table_directory

__all__ = ["check_new_file", "clear_result"]


def clear_result(directory: Path, *, force: bool) -> None:
    """Make room for a new result.

    Only files that belong to a result are ever removed, and none outside its directory, whatever the result says.

    Parameters
    ----------
    directory : Path
        Where the result shall be.
    force : bool
        Whether a result that is there may be removed.

    Raises
    ------
    InvalidConfiguration
        If something is there that must not be removed.
    RecordError
        If it cannot be removed.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InvalidConfiguration(f"{directory} is a file, want a directory")
    if not any(directory.iterdir()):
        return
    if not (directory / INFO_FILE).exists():
        raise InvalidConfiguration(f"{directory} holds something that is no result: choose another directory")
    if not force:
        raise InvalidConfiguration(f"{directory} holds a result: choose another directory, or replace it with --force")
    tables = [table_directory(directory, name) for name in read_info(directory)["tables"]]
    try:
        for table in tables:
            for part in [*table.glob("part-*.parquet"), *table.glob(".part-*.partial")]:
                part.unlink()
            if table.is_dir():
                table.rmdir()
        (directory / PROVENANCE_FILE).unlink(missing_ok=True)
        (directory / INFO_FILE).unlink()
    except OSError as error:
        raise RecordError(f"cannot remove the result in {directory}: {error.strerror}") from error


def check_new_file(path: Path, *, force: bool) -> None:
    """Refuse to replace a file, unless that is wanted.

    Parameters
    ----------
    path : Path
        The file to be written.
    force : bool
        Whether it may be replaced.

    Raises
    ------
    InvalidConfiguration
        If the file exists and may not be replaced, or is a directory.
    """
    if path.is_dir():
        raise InvalidConfiguration(f"{path} is a directory, want a file")
    if path.exists() and not force:
        raise InvalidConfiguration(f"{path} exists: choose another name, or replace it with --force")
