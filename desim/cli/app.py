"""Entry point of the command line: parse the arguments, run the command, and report errors.

Exit status: 0 on success; 1 if a check or run failed or was interrupted; 2 if arguments or input are invalid.
"""

from __future__ import annotations

import gc
import inspect
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Protocol, Union

from desim.checks import did_you_mean, short_repr
from desim.cli.helptext import plain_help, plain_text
from desim.cli.options import named_as_given
from desim.core import interrupt
from desim.exceptions import EXTRAS, DesimError, InvalidConfiguration, RecordError, WorkloadError, missing
from desim.files import is_storage_error

__all__ = ["main"]

#: Module and name of the dataclass that holds the options of each command.
COMMANDS = {
    "run": ("desim.cli.run", "Run"),
    "compare": ("desim.cli.compare", "Compare"),
    "validate": ("desim.cli.validate", "Validate"),
    "plot": ("desim.cli.plot", "Plot"),
    "view": ("desim.cli.view", "View"),
    "train": ("desim.cli.train", "Train"),
    "tune": ("desim.cli.train", "Tune"),
    "adversary": ("desim.cli.adversary", "Adversary"),
    "reproduce": ("desim.cli.reproduce", "Reproduce"),
    "fetch": ("desim.cli.fetch", "Fetch"),
    "convert": ("desim.cli.convert", "Convert"),
    "recover": ("desim.cli.recover", "Recover"),
    "list": ("desim.cli.listing", "List"),
    "demo": ("desim.cli.demo", "Demo"),
}
#: Commands whose options depend on the problem.
BY_PROBLEM = ("run", "compare", "train", "tune")
#: Errors about arguments and input.
INVALID = (InvalidConfiguration, RecordError, WorkloadError)
DESCRIPTION = """Discrete-event simulation of cluster scheduling.

Examples:
  desim demo --out demo                                     compare policies and write a page
  desim run batch --cores 256 --agent easy-fcfs --out easy  simulate one generated workload
  desim run batch --trace KTH.swf.gz --agent sjf            simulate a recorded log
  desim compare batch --agents fcfs,sjf,easy --seeds 10     means, confidence intervals, tests
  desim compare dag --agents heft,cpop,my_agents:Mine       compare DAG agents, including your own
  desim compare comparison/study.toml                       repeat a comparison, or start one from a file
  desim train batch --quick --out quick                     train an agent
  desim tune batch --quick --out search                     search for the best training settings
  desim compare batch --agents split-window:quick/split-window-16-16,backfilling-sjf
  desim adversary dag --agents heft --against cpop          find instances on which an agent does worst
  desim compare batch --trace KTH.swf --agents fcfs,easy --recorded-waits --metric wait_near
  desim plot easy --out figures                             draw figures of stored runs
  desim view easy                                           write an interactive page of stored runs
  desim reproduce lachesis --quick                          reproduce a paper's tables and figures, with a report
  desim fetch KTH-SP2                                       download a public log, then --trace KTH-SP2
  desim recover easy                                        close the records of a run that was killed
  desim COMMAND --help                                      show the options of a command

Exit status: 0 success; 1 a check or run failed or was interrupted; 2 invalid arguments or input."""


class Command(Protocol):
    """Parsed options of a command, ready to execute."""

    def execute(self) -> int:
        """Execute the command and return the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Execute a command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; default: those of the process.

    Returns
    -------
    int
        Exit status. Expected errors are printed as one line on standard error.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    command: Command | None = None
    is_main = threading.current_thread() is threading.main_thread()
    if argv is None:
        gc.set_threshold(50_000, 20, 100)  # the program's first objects are modules: not garbage, and looked at often
    usual: dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }  # SIGTERM ends batch jobs
    ours = [number for number in usual if is_main and signal.getsignal(number) is usual[number]]
    for number in ours:
        signal.signal(number, interrupt)
    try:
        command = _parse(arguments)
        status = command.execute()
        sys.stdout.flush()
    except SystemExit as leave:  # from the parser, and from rich when a pipe is closed
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the final flush does not fail again
        status = 1
    except BaseException as error:
        told = _told(error, command, arguments)
        if told is None:
            raise
        status = _complain(*told)
    finally:
        for number in ours:
            signal.signal(number, usual[number])
        if argv is None:
            gc.freeze()  # this program ends: Python would collect garbage among all its modules, for 0.2 s
    return status


def _told(error: BaseException, command: Command | None, arguments: list[str]) -> tuple[str, int] | None:
    """Return a sentence about an error and the exit status; None for a mistake in a program."""
    text = None
    if isinstance(error, KeyboardInterrupt):
        told = str(error)
        return told if told.startswith("interrupted") else f"interrupted: {told}" if told else "interrupted", 1
    if isinstance(error, DesimError):
        text = named_as_given(str(error), command)
    elif isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in EXTRAS:
        text = str(missing(" ".join(["desim", *arguments[:2]]), error))  # an optional package
    elif isinstance(error, OSError):
        named = "".join(f": {short_repr(name)}" for name in (error.filename, error.filename2) if name is not None)
        text = f"{error.strerror or error}{named}"
    elif isinstance(error, MemoryError | RecursionError | OverflowError) or "integer string conversion" in str(error):
        text = _limit(error)
    elif type(error).__module__.partition(".")[0] in ("polars", "pyo3_runtime"):
        text = f"records cannot be read: {str(error).partition(chr(10))[0]}"
    return None if text is None else (f"error: {text}", _status(error))


def _limit(error: BaseException) -> str:
    """Return a sentence about a limit of Python or of the machine that was reached, with the place."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, MemoryError):
        return f"memory is exhausted{place}; try fewer jobs, cores or workers"
    what = "too deep a nesting" if isinstance(error, RecursionError) else "too large a number"
    return f"{what} for Python: {error}{place}"


def _parse(arguments: list[str]) -> Command:
    """Return the command that the arguments name, with its options; like any parser, print help or report errors."""
    _check_words(arguments)
    if arguments == ["--version"]:
        from desim import __version__

        print(f"desim {__version__}")  # noqa: T201
        raise SystemExit(0)
    if arguments and arguments[0] in COMMANDS:
        name, *rest = arguments
        if name in BY_PROBLEM and rest and not rest[0].startswith("-"):
            problem, *rest = rest
            if name == "compare":
                return _comparison(problem, rest)
            command = _with_options(name, problem)
            return _options(command, f"desim {name} {problem}", _help_of(command), rest)
        if name == "reproduce" and len(rest) > 1 and not any(word.startswith("-") for word in rest[:2]):
            from desim.cli.reproduce import ReproduceOne

            return ReproduceOne(rest[0], rest[1], tuple(rest[2:]))
        return _options(_class(name), f"desim {name}", _help_of(_class(name)), rest)
    if arguments and not arguments[0].startswith("-"):
        near = did_you_mean(arguments[0], COMMANDS)
        raise InvalidConfiguration(
            f"unknown command {arguments[0]!r}{near}; choose from {', '.join(COMMANDS)}; see desim --help"
        )
    import tyro

    choices = tuple(
        Annotated[_class(name), tyro.conf.subcommand(name, description=_help_of(_class(name)).partition("\n")[0])]
        for name in COMMANDS
    )
    return _options(Union[choices], "desim", DESCRIPTION, arguments or ["--help"])  # noqa: UP007  # made at run time


def _check_words(arguments: Sequence[str]) -> None:
    """Raise if an argument is empty, as when a shell variable is unset, is no text, or a number has no ASCII digits.

    An empty argument would silently mean a default or ``.``.
    """
    for at, word in enumerate(arguments):
        before = arguments[at - 1] if at else ""
        option, _, value = word.partition("=") if word.startswith("--") and "=" in word else (before, "", word)
        name = option if option.startswith("-") else "an argument"
        if not value.strip():
            raise InvalidConfiguration(f"{name} is empty; give a value or omit the option")
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise InvalidConfiguration(f"{name}: got {value!r}, expected UTF-8 text without null characters")
        if not value.isascii() and re.fullmatch(r"[\d.eE+-]+", value):  # int() and float() would accept it
            raise InvalidConfiguration(f"{name}: got {value!r}, expected a number in ASCII digits")


def _comparison(problem: str, rest: list[str]) -> Command:
    """Return a comparison of a problem, or of a study's file; one comparison per value of options with several."""
    from desim.cli.swept import Swept, points_of

    name, start = f"desim compare {problem}", None
    if problem.endswith(".toml"):
        from desim.sweep.study_file import StudyFile

        file = StudyFile(Path(problem))
        problem = file.problem
    command: Any = _with_options("compare", problem)
    if name.endswith(".toml"):
        start, several = file.read(command(agents=""))
        rest = [*(word for one, values in several.items() for word in (f"--{one.replace('_', '-')}", values)), *rest]
    text = _help_of(command)
    points = points_of(rest, command)
    if not points:
        return _options(command, name, text, rest, start)
    made: Any = tuple((one, _options(command, name, text, list(one.arguments), start)) for one in points)
    return Swept(made)


def _with_options(name: str, problem: str) -> type[Command]:
    """Return a command with the options of a problem."""
    if name in ("train", "tune"):
        from desim.cli.train import train_command

        return train_command(problem, name)
    from desim.cli.options import command_with_options

    return command_with_options(_class(name), problem)


def _options(kind: Any, program: str, description: str, arguments: list[str], start: Any = None) -> Command:
    """Return a command with the options that the arguments give; ``start`` holds the others, if not the defaults."""
    import tyro

    from desim.cli.options import with_typing_unions

    with_typing_unions(kind)
    config = (
        tyro.conf.OmitArgPrefixes,
        tyro.conf.OmitSubcommandPrefixes,
        tyro.conf.FlagCreatePairsOff,
        tyro.conf.DisallowNone,
    )
    with plain_help():
        given = {} if start is None else {"default": start}
        command: Command = tyro.cli(kind, prog=program, description=description, args=arguments, config=config, **given)
    return command


def _class(name: str) -> type[Command]:
    module, attribute = COMMANDS[name]
    found: type[Command] = getattr(import_module(module), attribute)
    return found


def _help_of(command: type[Command]) -> str:
    """Return the docstring of a command as plain text."""
    return plain_text(inspect.getdoc(command) or "")


def _status(error: BaseException) -> int:
    """Return exit status 2 for unusable input, 1 for other errors, such as a full disk."""
    if is_storage_error(error) or isinstance(error, ConnectionError | TimeoutError | MemoryError | ImportError):
        return 1
    return 1 if isinstance(error, DesimError) and not isinstance(error, INVALID) else 2


def _complain(text: str, status: int) -> int:
    print(f"desim: {' '.join(text.split())}", file=sys.stderr)  # noqa: T201
    return status
