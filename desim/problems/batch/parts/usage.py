"""Usage of a cluster per user, with exponential decay."""

from __future__ import annotations

from math import log

from desim.checks import check_float

__all__ = ["Usage"]


class Usage:
    r"""Core-seconds of each user, which decay by one half in each half-life h.

    At time t, the usage of a user is

    .. math:: U(t) = \int_0^t c(s) \, 2^{-(t - s) / h} \, ds,

    with :math:`c(s)` the cores that the user's jobs held at time s.

    Parameters
    ----------
    half_life : float
        Half-life in seconds, above 0.

    Raises
    ------
    InvalidConfiguration
        If the half-life is out of range.
    """

    def __init__(self, half_life: float) -> None:
        self.half_life = check_float("half_life", half_life, above=0)
        self._users: dict[int, tuple[float, float, int]] = {}  # time, amount then, cores held since

    def change(self, user_id: int, cores: int, time: float) -> None:
        """Record that the cores of a user change: they grow, or shrink if the number is negative.

        Parameters
        ----------
        user_id : int
            Number of the user.
        cores : int
            Change in the number of cores.
        time : float
            Current time in seconds.
        """
        held = self._users[user_id][2] if user_id in self._users else 0
        self._users[user_id] = time, self.of(user_id, time), held + cores

    def of(self, user_id: int, time: float) -> float:
        """Return the usage of a user, in core-seconds.

        Parameters
        ----------
        user_id : int
            Number of the user; users who never held cores have usage 0.
        time : float
            Current time in seconds.
        """
        since, amount, cores = self._users.get(user_id, (time, 0.0, 0))
        left: float = 0.5 ** ((time - since) / self.half_life)
        return amount * left + cores * (1.0 - left) * self.half_life / log(2.0)

    def by_user(self, time: float) -> dict[int, float]:
        """Return the usage of each user who has ever held cores, in core-seconds.

        Parameters
        ----------
        time : float
            Current time in seconds.
        """
        return {user_id: self.of(user_id, time) for user_id in self._users}
