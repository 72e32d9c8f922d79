"""Search spaces: how they are written, under which conditions their parameters exist, and plans over them."""
