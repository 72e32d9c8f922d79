"""The results of a search: the pick, the table of its trials, and advice on how to make a pick safe."""
