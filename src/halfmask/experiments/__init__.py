"""One file for each experiment of the paper, and those that go beyond it: run, record, draw, check.

experiment.py     what an experiment is, and how it is run, resumed and judged
claims.py         every claim of the paper, and the experiment that tests it
"""
