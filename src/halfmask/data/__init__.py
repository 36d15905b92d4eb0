"""Documents in, batches out: token files and the rows of a step. Numpy; no torch."""
