"""The finders: learning rate, optimizer, agent, any hyperparameters; and workers that join a study.

Each file answers one question with the search of `finder.search`.
"""
