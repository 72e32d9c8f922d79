"""Playing: episodes of a trained agent, on screen, as frames, as a video.

Nothing in this room learns.
"""
