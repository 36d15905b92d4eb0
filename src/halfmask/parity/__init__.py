"""The parity laboratory: the paper's toy experiments, run for real.

task.py       the (n, k) task: secret, training and held-out sequences
masks.py      what a step hides: plain supervision, or any law
models.py     two-layer network, one-layer transformer, nanoGPT-like transformer
losses.py     squared and cross-entropy loss, and the effective loss beside it
recipe.py     ParityRecipe: everything a run is a function of
lab.py        the step, and the loop around it
landscape.py  the energy E(W) of a network in training, at small n
run.py        the run's folder: recipe, measures, checkpoint
"""
