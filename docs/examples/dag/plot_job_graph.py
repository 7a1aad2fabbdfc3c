"""
Job graphs
==========

Jobs are graphs of nodes with work, and edges with data. Three generated ones, drawn with their critical paths. It
runs in a second.
"""

# %%
# A query
# -------
# Queries like those of TPC-H on Spark: each node is a stage. The area of a node is its work, the width of an edge the
# size of its data, and the path with the most work is orange.

import networkx as nx

from desim import plotting
from desim.problems.dag import from_networkx
from desim.workloads import random_dags, tpch

query = tpch.generate(1, queries=[8], sizes=(10,), ccr=0.5, seed=0)[0]
query_axes = plotting.dag_drawing(query)

# %%
# Long and wide graphs
# --------------------
# Random graphs in layers are described by a shape: below 1 they are long, and little can run at the same time; above
# 1 they are wide.

long_axes = plotting.dag_drawing(random_dags.generate(20, shape=0.5, out_degree=2, seed=3))
wide_axes = plotting.dag_drawing(random_dags.generate(20, shape=1.8, out_degree=2, seed=3))

# %%
# A custom graph
# --------------
# A job can be made from any directed graph of networkx without cycles. Nodes have work, edges have sizes.

graph = nx.DiGraph()
for name, work in {"split": 1.0, "left": 4.0, "middle": 6.0, "right": 3.0, "merge": 2.0}.items():
    graph.add_node(name, work=work)
for name in ("left", "middle", "right"):
    graph.add_edge("split", name, size=2.0)
    graph.add_edge(name, "merge", size=1.0)
own = from_networkx(graph, job_id=1)
own_axes = plotting.dag_drawing(own)
