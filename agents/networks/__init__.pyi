from .builders import body as body
from .builders import constant as constant
from .builders import critic_network as critic_network
from .builders import gather_actions as gather_actions
from .builders import headed as headed
from .builders import network as network
from .builders import noisy_network as noisy_network
from .builders import of_actions as of_actions
