"""TensorFlow and Keras, imported without log output. Other modules import `tf`, `keras` and `ops` from here."""

from agents.backend.silence import import_tensorflow
from agents.backend.threads import limit_threads
from agents.backend.xla_flags import set_xla_flags

set_xla_flags()
import_tensorflow()
limit_threads()

import keras  # noqa: E402 - after TensorFlow, which Keras would otherwise import with its log output
import tensorflow as tf  # noqa: E402
from keras import ops  # noqa: E402

__all__ = ["keras", "ops", "tf"]
