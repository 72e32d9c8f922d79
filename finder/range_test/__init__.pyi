from .curve import smooth as smooth
from .suggestion import Suggestion as Suggestion
from .suggestion import minimum as minimum
from .suggestion import slide as slide
from .suggestion import steepest as steepest
from .suggestion import valley as valley
