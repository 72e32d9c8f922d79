"""Named objects shared by all processes of a study, such as a counter of environment steps.

Environments and callbacks use shared objects in any process. An object lives in the first process of a study, which
serves the other processes (`sockets`), or in an actor where the first process is connected to Ray (`ray_actor`). Each
process locates the objects itself (`place`), from an address that the starting process passes on.
"""

from agents.shared_objects.counter import Counter
from agents.shared_objects.handle import serve_shared, shared
from agents.shared_objects.place import address_for_actors, address_for_processes, use_address

__all__ = ["Counter", "address_for_actors", "address_for_processes", "serve_shared", "shared", "use_address"]
