"""A process that does nothing until its parent ends, in place of an agent that Ray requires but its jobs do not use.

The module is run as a script, without this project, so it imports only the standard library.
"""

import os
import time

_PAUSE_S = 1.0
"""Time between two looks at the parent, in seconds."""


def main() -> None:
    """Wait until the parent process ends."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
