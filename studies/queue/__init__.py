"""Queue of a running study: which trial is next, and the states and endings of trials in Optuna."""
