"""Scheduling agents for desim's problems, from classical heuristics to learned policies."""
