"""DAG workloads: jobs that are graphs of tasks, and the executors that run them."""
