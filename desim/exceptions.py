"""The errors that desim raises, all derived from one base class.

.. code-block:: text

    DesimError
    ├── WorkloadError          a trace, table or job that cannot be used (ValueError)
    ├── InfeasibleAction       an agent's action that the system cannot carry out (ValueError)
    ├── InvalidConfiguration   arguments that are out of range or contradict each other (ValueError)
    ├── RecordError            stored results that cannot be read or written (OSError)
    └── MissingDependency      an optional package that is not installed (ImportError)

A run that stalls, that is, ends before its work is done because no event is left to do it, gives a
:class:`StalledWarning`. A comparison that contains unreliable runs gives a :class:`ComparisonWarning`.

Every error has exactly one string argument, because SimPy raises a process's error again as
``type(error)(*error.args)``.
"""

from __future__ import annotations

__all__ = [
    "ComparisonWarning",
    "DesimError",
    "DisregardedWarning",
    "InfeasibleAction",
    "InvalidConfiguration",
    "MissingDependency",
    "RecordError",
    "StalledWarning",
    "WorkloadError",
    "missing",
]


class DesimError(Exception):
    """Base class of all errors that desim raises on purpose."""


class WorkloadError(DesimError, ValueError):
    """Unusable workload; the message names the file and line, or the job."""


class InfeasibleAction(DesimError, ValueError):
    """Action that the system cannot carry out; the message names time, job and reason."""


class InvalidConfiguration(DesimError, ValueError):
    """Arguments that are out of range or contradict each other; the message names them."""


class RecordError(DesimError, OSError):
    """Stored records that are missing, incomplete or unreadable; the message names the path."""


class MissingDependency(DesimError, ImportError):
    """Missing optional package; the message contains the command that installs it."""


#: Extra of `pip install 'desim[EXTRA]'` that installs each optional package.
EXTRAS = {
    "torch": "learning",
    "torch_geometric": "learning",
    "safetensors": "learning",
    "tensorboard": "learning",
    "cvxpy": "cvxpy",
    "ortools": "optimum",
    "numba": "search",
    "optuna": "tune",
    "pandas": "pandas",
    "pyarrow": "pandas",
}


def missing(what: str, error: ImportError) -> MissingDependency:
    """Return the error for a missing package, with the command that installs it.

    Parameters
    ----------
    what : str
        What needs the package, in words.
    error : ImportError
        The import error.

    Returns
    -------
    MissingDependency
        Error to raise from the import error.
    """
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return MissingDependency(f"{what} cannot be imported: {error}")
    command = f"pip install 'desim[{EXTRAS[package]}]', or make install in a checkout"
    return MissingDependency(f"{what} needs {package}, which is not installed: {command}")


class StalledWarning(UserWarning):
    """A run has status ``"stalled"``: it ended with work left and no event to do it; the message gives the reason."""


class DisregardedWarning(UserWarning):
    """A problem has a feature that the agent does not take into account; the message names both."""


class ComparisonWarning(UserWarning):
    """A comparison contains runs that are invalid, failed or without a result; the message names runs and reasons."""
