"""Output directories and files of commands: what may be replaced, and what may not."""

from __future__ import annotations

from pathlib import Path

from desim.exceptions import InvalidConfiguration, RecordError
from desim.files import locked, remove_leftovers
from desim.provenance import PROVENANCE_FILE
from desim.records import INFO_FILE, read_info, table_directory

__all__ = ["check_new_file", "clear_result"]


def clear_result(directory: Path, *, force: bool) -> None:
    """Remove an existing result, so that a new one can be written.

    Only files of a result are removed, and none outside its directory, whatever the result contains.

    Parameters
    ----------
    directory : Path
        Directory for the new result.
    force : bool
        Whether an existing result may be removed.

    Raises
    ------
    InvalidConfiguration
        If the directory contains something that must not be removed.
    RecordError
        If it cannot be removed.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InvalidConfiguration(f"{directory}: got a file, expected a directory")
    if not any(directory.iterdir()):
        return
    if not (directory / INFO_FILE).exists():
        raise InvalidConfiguration(f"{directory} is not empty and contains no result; choose another directory")
    if not force:
        raise InvalidConfiguration(f"{directory} already contains a result; choose another directory or use --force")
    tables = [table_directory(directory, name) for name in read_info(directory)["tables"]]
    try:
        with locked(directory):
            for table in tables:
                remove_leftovers(table)
                for part in table.glob("part-*.parquet"):
                    part.unlink()
                if table.is_dir():
                    table.rmdir()
            remove_leftovers(directory)
            (directory / PROVENANCE_FILE).unlink(missing_ok=True)
            (directory / INFO_FILE).unlink()
    except RecordError:
        raise
    except OSError as error:
        raise RecordError(f"cannot remove the result in {directory}: {error.strerror}") from error


def check_new_file(path: Path, *, force: bool) -> None:
    """Raise if a file exists and may not be replaced.

    Parameters
    ----------
    path : Path
        File to write.
    force : bool
        Whether an existing file may be replaced.

    Raises
    ------
    InvalidConfiguration
        If the file exists and may not be replaced, or is a directory.
    """
    if path.is_dir():
        raise InvalidConfiguration(f"{path}: got a directory, expected a file")
    if path.exists() and not force:
        raise InvalidConfiguration(f"{path} already exists; choose another name or use --force")
