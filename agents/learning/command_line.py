"""What the options of ``desim train`` have in common, and the command line that a card says to train an agent again."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["TrainingCommand", "command_line"]


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
    >>> from desim.agents.batch.command import TrainingOptions
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


class TrainingCommand:
    """Base class of the options of ``desim train``, frozen dataclasses whose fields are what can be given.

    Attributes
    ----------
    trained : str
        What stands behind ``desim train``, for example ``"batch"``.
    """

    trained: ClassVar[str]
    name: str | None

    def settings(self) -> Any:
        """Return all that determines the training.

        Returns
        -------
        desim.agents.learning.recipe.Recipe
            With defaults for all that is no option.
        """
        raise NotImplementedError

    def default_name(self) -> str:
        """Return what the files with the weights are called unless a name is given."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse options that would not come to light otherwise, or late."""

    def command(self) -> str:
        """Return the command line that trains the same agent."""
        return command_line(f"desim train {self.trained}", self)

    def train(self, directory: Path, report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Train, and write the weights.

        Parameters
        ----------
        directory : Path
            Where checkpoints, TensorBoard's log, and at the end the weights go.
        report : callable
            Called with each new entry of the learning curve.

        Returns
        -------
        dict
            ``status``, ``weights`` (the file without its suffixes), and ``validation``, the measures of the weights.

        Raises
        ------
        InvalidConfiguration
            If an option is out of range, or the directory holds another training.
        """
        from desim.agents.learning.recipe import train, write

        self.check()
        settings = self.settings()
        result = train(settings, directory / "checkpoint", report)
        stem = directory / (self.name or self.default_name())
        if result.status != "interrupted":
            write(stem, settings, result, self.command())
        return {"status": result.status, "weights": str(stem), "validation": result.best}
