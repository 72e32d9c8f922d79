"""Self-play: learning agents are published under a name, and opponents are published agents or earlier versions."""
