"""The finders: learning rate, optimizer, agent, any hyperparameters; and workers that help with a study.

One question a file.
"""
