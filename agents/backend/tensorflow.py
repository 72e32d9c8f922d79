"""TensorFlow and Keras, imported without TensorFlow's chatter. Modules here import them from this one."""

from agents.backend.silence import import_tensorflow

import_tensorflow()

import keras  # noqa: E402 - after TensorFlow, which would otherwise be imported by it, and not quietly
import tensorflow as tf  # noqa: E402
from keras import ops  # noqa: E402

__all__ = ["keras", "ops", "tf"]
