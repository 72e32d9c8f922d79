"""Playing: episodes of a trained agent, on screen, as frames, or as a video.

There is no learning in this room.
"""
