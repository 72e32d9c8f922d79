"""Objects that all processes of a study share under a name, such as a counter of environment steps.

They are for environments and callbacks, wherever those run. An object lives in the first process of a study, which
serves the others (`sockets`), or, where that is connected to Ray, in an actor (`ray_actor`). Each process finds out for
itself where that is (`place`); who starts processes hands on what they need for it.
"""

from agents.shared_objects.counter import Counter
from agents.shared_objects.handle import serve_shared, shared
from agents.shared_objects.place import address_for_actors, address_for_processes, use_address

__all__ = ["Counter", "address_for_actors", "address_for_processes", "serve_shared", "shared", "use_address"]
