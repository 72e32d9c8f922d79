"""Callbacks that write the numbers of a training for other programs: TensorBoard, MLflow, Weights & Biases."""
