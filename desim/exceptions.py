"""The errors that desim raises, all below one base class.

.. code-block:: text

    DesimError
    ├── WorkloadError          a trace, table or job that cannot be used (ValueError)
    ├── InfeasibleAction       an agent's answer that the system cannot carry out (ValueError)
    ├── InvalidConfiguration   arguments that make no sense together (ValueError)
    ├── RecordError            stored results that cannot be read or written (OSError)
    └── MissingDependency      an optional package that is not installed (ImportError)

A run that ends before its work is done, since nothing will do it, warns with a :class:`StalledWarning`; a comparison
with runs that are not to be relied on, with a :class:`ComparisonWarning`.

Every error carries exactly one string, so that SimPy, which raises a process's error again as
``type(error)(*error.args)``, loses nothing.
"""

from __future__ import annotations

__all__ = [
    "ComparisonWarning",
    "DesimError",
    "InfeasibleAction",
    "InvalidConfiguration",
    "MissingDependency",
    "RecordError",
    "StalledWarning",
    "WorkloadError",
    "missing",
]


class DesimError(Exception):
    """Base class of every error that desim raises on purpose."""


class WorkloadError(DesimError, ValueError):
    """A workload that cannot be used; the message names the file and line, or the job."""


class InfeasibleAction(DesimError, ValueError):
    """An action that the system cannot carry out; the message names time, job and reason."""


class InvalidConfiguration(DesimError, ValueError):
    """Arguments that are out of range or contradict each other; the message names them."""


class RecordError(DesimError, OSError):
    """Stored records that are missing, incomplete or unreadable; the message names the path."""


class MissingDependency(DesimError, ImportError):
    """An optional package is needed; the message holds the command that installs it."""


#: What `pip install 'desim[...]'` installs each package of with, for packages that are not always needed.
EXTRAS = {
    "torch": "learning",
    "torch_geometric": "learning",
    "safetensors": "learning",
    "tensorboard": "learning",
    "cvxpy": "cvxpy",
    "ortools": "optimum",
    "numba": "search",
    "optuna": "tune",
}


def missing(what: str, error: ImportError) -> MissingDependency:
    """Return the error that says which package something needs, and what installs it.

    Parameters
    ----------
    what : str
        What cannot be had without it, in words.
    error : ImportError
        What went wrong.

    Returns
    -------
    MissingDependency
        To be raised from the other.
    """
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return MissingDependency(f"{what} cannot be imported: {error}")
    command = f"pip install 'desim[{EXTRAS[package]}]', or make install in a checkout"
    return MissingDependency(f"{what} needs {package}, which is not installed: {command}")


class StalledWarning(UserWarning):
    """A run has status ``"stalled"``: work was left that nothing would have done; the message says why."""


class ComparisonWarning(UserWarning):
    """Runs of a comparison are not valid, have come to nothing or have failed; the message says which and why."""
