"""Estimators, intervals and the drift of rates, judged over tables and simulated returns."""
