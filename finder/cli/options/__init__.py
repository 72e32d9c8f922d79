"""The flags of commands, by what they are about, and how their values are parsed."""
