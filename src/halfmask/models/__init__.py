"""What predicts hidden tokens. Everything else knows a model by the `Denoiser` protocol alone."""
