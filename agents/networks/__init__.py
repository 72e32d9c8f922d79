"""Networks: builders, layers (noisy, dueling), distributions, value heads, and forward passes in NumPy.

Keras models and functions of their outputs enter; losses and optimizers do not.
"""
