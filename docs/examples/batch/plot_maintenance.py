"""
Maintenance with and without notice
===================================

All cores are switched off for eight hours. An agent that does not know of it starts jobs that are then cut; one that
does starts only what ends in time. It runs in a second.
"""

# %%
# An agent that wraps another and keeps from the queue what might run into the maintenance.

from desim import plotting, simulate
from desim.agents.batch import EASYBackfilling
from desim.problems.batch import BatchCluster
from desim.processes import Outage, planned_outages
from desim.workloads import lublin

hour, day = 3_600.0, 86_400.0


class DrainingBefore:
    """Lets an agent decide, but starts no job that may run into a maintenance."""

    def __init__(self, agent, begin):
        self.agent, self.begin = agent, begin
        self.name = f"{agent.name}, warned"

    def act(self, observation):
        """Return the jobs to start, or None."""
        actions = self.agent.act(observation)
        if actions is None or observation.time >= self.begin:
            return actions
        queue = observation.queue
        in_time = set(queue.row[observation.time + queue.requested_time <= self.begin].tolist())
        return [row for row in actions if row in in_time] or None


# %%
# Above, jobs that were cut are hatched: they start afresh after the maintenance, and what they had done is lost.
# Below, the cores run empty before it, because users ask for three times what they need, and short jobs are started
# to the last.

jobs = lublin.generate(num_jobs=500, num_cores=64, seed=0, load=0.8, overestimate=3.0)
begin = 2.0 * day
maintenance = planned_outages([Outage(begin, begin + 8 * hour, cores=range(64))])
cluster = BatchCluster(jobs, num_cores=64, processes=[maintenance])
agents = [EASYBackfilling("fcfs"), DrainingBefore(EASYBackfilling("fcfs"), begin)]
results = {agent.name: simulate(cluster, agent) for agent in agents}
gantt_axes = plotting.gantt(results, window=(begin - 1.0 * day, begin + 1.0 * day))

# %%
# In numbers:

for name, result in results.items():
    metrics = result.metrics()
    wasted, wait = metrics["wasted_core_seconds"] / hour, metrics["waiting_time_mean"] / hour
    print(f"{name:18} {metrics['interruptions']:2.0f} jobs cut, {wasted:3.0f} core-hours lost, mean wait {wait:.2f} h")
