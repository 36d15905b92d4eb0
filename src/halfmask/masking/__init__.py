"""How much is hidden, and where: schedules of laws, weights, and the corruption of rows. Numpy; no torch."""
