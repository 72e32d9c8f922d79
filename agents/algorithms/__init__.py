"""The algorithms, one paper a file. `registry` knows them by name without importing them."""
