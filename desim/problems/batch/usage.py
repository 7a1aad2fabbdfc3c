"""What users have used of a cluster, with a memory that fades."""

from __future__ import annotations

from math import log

from desim.checks import check_float

__all__ = ["Usage"]


class Usage:
    r"""Core-seconds of each user, of which half are forgotten in each half-life h.

    At time t a user has used

    .. math:: U(t) = \int_0^t c(s) \, 2^{-(t - s) / h} \, ds,

    with :math:`c(s)` the cores that the user's jobs held at time s.

    Parameters
    ----------
    half_life : float
        Seconds, above 0.

    Raises
    ------
    InvalidConfiguration
        If it is not.
    """

    def __init__(self, half_life: float) -> None:
        self.half_life = check_float("half_life", half_life, above=0)
        self._users: dict[int, tuple[float, float, int]] = {}  # time, amount then, cores held since

    def change(self, user_id: int, cores: int, time: float) -> None:
        """Account for cores that a user holds from now on, or gives back if they are less than 0.

        Parameters
        ----------
        user_id : int
            Who.
        cores : int
            How many more than before.
        time : float
            Now, in seconds.
        """
        held = self._users[user_id][2] if user_id in self._users else 0
        self._users[user_id] = time, self.of(user_id, time), held + cores

    def of(self, user_id: int, time: float) -> float:
        """Return what a user has used, in core-seconds.

        Parameters
        ----------
        user_id : int
            Who; nothing is known of users who never held anything.
        time : float
            Now, in seconds.
        """
        since, amount, cores = self._users.get(user_id, (time, 0.0, 0))
        left: float = 0.5 ** ((time - since) / self.half_life)
        return amount * left + cores * (1.0 - left) * self.half_life / log(2.0)

    def by_user(self, time: float) -> dict[int, float]:
        """Return what each user has used, in core-seconds, of those who have ever held something.

        Parameters
        ----------
        time : float
            Now, in seconds.
        """
        return {user_id: self.of(user_id, time) for user_id in self._users}
