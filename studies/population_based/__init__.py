"""Population-based training: which members of a population copy others, and with which numbers they continue.

Pure functions of the recorded history, and the schedule that a member has followed.
"""
