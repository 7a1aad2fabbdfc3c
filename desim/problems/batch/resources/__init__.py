"""What queued jobs may use, now (plans) and later (profiles): counted cores, particular cores, nodes.

An agent asks ``observation.plan()`` for a :class:`Plan` of one decision, and ``observation.profile()`` for a
:class:`Profile`, which it keeps up to date itself. The observation chooses the kind that suits the cluster, so an agent
serves clusters of cores, with or without advance reservations, and clusters of nodes.
"""

from desim.problems.batch.resources.core_plan import CoreSetPlan, CountPlan, ReservationPlan
from desim.problems.batch.resources.node_availability import NodeAvailability, StartOnNodes
from desim.problems.batch.resources.node_plan import NodePlan
from desim.problems.batch.resources.node_profile import NodeProfile, NodeSlot
from desim.problems.batch.resources.profile import AvailabilityProfile, CoreProfile, Reservation
from desim.problems.batch.resources.protocols import Plan, Profile, Slot

__all__ = [
    "AvailabilityProfile",
    "CoreProfile",
    "CoreSetPlan",
    "CountPlan",
    "NodeAvailability",
    "NodePlan",
    "NodeProfile",
    "NodeSlot",
    "Plan",
    "Profile",
    "Reservation",
    "ReservationPlan",
    "Slot",
    "StartOnNodes",
]
