"""What a search says at its end: the pick, the table of its trials, and advice on how to make a pick safe."""
