"""Picks: policies of searches replayed over tables of runs, and judged on seeds that they did not see."""
