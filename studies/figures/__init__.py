"""Figures of a study. One figure per file, as `..._data(study)` (tested) and `plot_...(study)` (drawn)."""
