"""Training: the recipe, the loop, and what it needs.

recipe.py         TrainRecipe: everything a run is a function of
loop.py           the step, and the loop around it
optim.py          AdamW, its groups, the learning rate of a step, EMA
parallel.py       torch.distributed: ranks, DDP, FSDP2
checkpoint.py     atomic, verified, at any world size
run.py            the run's folder: recipe, versions, metrics
meter.py          tokens a second, and the share of the machine's peak
"""
