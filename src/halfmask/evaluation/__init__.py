"""What a model has learned, by measures that never depend on the law it was trained with."""
