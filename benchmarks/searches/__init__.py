"""Searches: minutes, population-based training, resuming, workers, strategies, many trials."""
