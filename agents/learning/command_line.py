"""The command line that stands for options: what a card says to train an agent again."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import Any

__all__ = ["command_line"]


def command_line(command: str, options: Any) -> str:
    """Return the command line of options that are not as by default.

    Parameters
    ----------
    command : str
        What it begins with, for example ``"desim train batch"``.
    options : dataclass
        Its fields are called like the options, with underscores.

    Returns
    -------
    str
        For a shell.

    Examples
    --------
    >>> from agents.batch.command import TrainingOptions
    >>> command_line("desim train batch", TrainingOptions(head=9, any_window=True))
    'desim train batch --head 9 --any-window'
    """
    words = command.split()
    for field in fields(options):
        value = getattr(options, field.name)
        if value != field.default and value is not None:
            given = [] if value is True else value if isinstance(value, tuple) else [value]
            words += ["--" + field.name.replace("_", "-"), *map(str, given)]
    return shlex.join(words)
