"""lm-evaluation-harness with our models: the model, the paper's groups of tasks, and local files in place of a hub."""
