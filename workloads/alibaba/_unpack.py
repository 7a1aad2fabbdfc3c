"""The bytes of a table: from a plain file, a gzip file, or the one csv file in a tar archive."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Generator, Iterator
from pathlib import PurePosixPath
from typing import IO, cast

import numpy as np

from desim.exceptions import WorkloadError
from desim.workloads._files import LONGEST_LINE, Pathish, open_binary

__all__ = ["batches", "chunks"]

BLOCK = 1 << 18
# "ustar" stands at this place of an archive's first header, in POSIX and GNU archives alike
_TAR_MAGIC = slice(257, 262)


def chunks(path: Pathish) -> Generator[bytes]:
    """Read a table, in constant memory.

    Parameters
    ----------
    path : str or path-like
        The file; gzip and tar are recognized by their content, whatever the name.

    Yields
    ------
    bytes
        Consecutive parts, not empty, cut anywhere.

    Raises
    ------
    WorkloadError
        If the file cannot be read, is damaged, or is an archive of no or several csv files.
    """
    # A GzipFile has what a BufferedReader needs, which looks further ahead than GzipFile.peek
    with open_binary(path) as file, io.BufferedReader(cast(io.RawIOBase, file), BLOCK) as buffered:
        if buffered.peek(512)[_TAR_MAGIC] == b"ustar":
            yield from _member(os.fspath(path), buffered)
        else:
            yield from _blocks(buffered)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while data := file.read(BLOCK):
        yield data


def _member(source: str, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of the csv file in an archive; nothing is ever written to disk."""
    found = ""
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                # Files that begin with "._" are what macOS adds
                if not member.isfile() or not name.endswith(".csv") or name.startswith("._"):
                    continue
                if found:
                    raise WorkloadError(f"{source}: holds {found!r} and {member.name!r}, want one csv file")
                found = member.name
                yield from _blocks(cast(IO[bytes], archive.extractfile(member)))
    except WorkloadError:
        raise
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise WorkloadError(f"{source}: corrupt tar archive: {error}") from error
    if not found:
        raise WorkloadError(f"{source}: is an archive without a csv file")


def batches(source: str, parts: Iterator[bytes], num_lines: int) -> Iterator[tuple[int, bytes]]:
    """Cut consecutive parts of a file into blocks of whole lines.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    parts : iterator of bytes
        From `chunks`.
    num_lines : int
        Lines a block; the last one may have fewer.

    Yields
    ------
    number : int
        The number of the block's first line, from 1.
    block : bytes
        Whole lines, joined by line feeds, without the last line feed.

    Raises
    ------
    WorkloadError
        For a line of more than a mebibyte.
    """
    number, lines, open_length = 1, 0, 0
    held: list[bytes] = []
    for part in parts:
        held.append(part)
        feeds = part.count(b"\n")
        lines += feeds
        open_length = len(part) - part.rfind(b"\n") - 1 if feeds else open_length + len(part)
        if open_length > LONGEST_LINE:
            raise WorkloadError(f"{source}: line {number + lines} is longer than {LONGEST_LINE:,} bytes")
        if lines >= num_lines:
            data = b"".join(held)
            ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
            start = 0
            for end in ends[num_lines - 1 :: num_lines].tolist():
                yield number, data[start:end]
                start = end + 1
                number += num_lines
            held, lines = [data[start:]], lines % num_lines
    if rest := b"".join(held):
        yield number, rest.removesuffix(b"\n")
