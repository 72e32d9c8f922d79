"""TensorFlow and Keras: their import without chatter, values of variables, gradients and functions that agents share.

Only what needs a tensor enters. Imports nothing of the other rooms.
"""
