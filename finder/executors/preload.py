"""What the fork server imports before it forks: everything that a child needs.

A terminal sends Ctrl-C to the fork server too, and the import takes seconds. It is deaf to it from the first moment,
as are its children: the parent hears Ctrl-C and ends them all.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)

import finder.executors.child  # noqa: E402, F401
