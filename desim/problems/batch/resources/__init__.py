"""What queued jobs may use, now (plans) and later (profiles): counted cores, particular cores, nodes.

An agent asks ``observation.plan()`` for a :class:`Plan` of one decision, and ``observation.profile()`` for a
:class:`Profile`, which it keeps up to date itself. The observation chooses the kind that suits the cluster, so an agent
serves clusters of cores, with or without advance reservations, and clusters of nodes.
"""
