from .tensorflow import keras as keras
from .tensorflow import ops as ops
from .tensorflow import tf as tf
