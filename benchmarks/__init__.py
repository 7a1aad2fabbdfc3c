"""Relative measurements: each module is a script that prints one table.

They have a small runner of their own, because a ratio needs two programs that take turns within one run, in processor
time. asv (0.6.6) lets commits take turns and pytest-benchmark (5.3.1) times one function after another, so that with
either of them the scripts would stay, and only the 150 lines that start them and keep their figures would go.
"""
