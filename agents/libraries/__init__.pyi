from .stable_baselines3 import make_model as make_model
