"""The fixture as a command that is ready at once: `warm_launcher.py SOCKET ERA [--tasks]`.

Importing the SDK takes a second, and a gateway starts a child for every client: most of a run would be
waiting for imports, and scenarios that look at the clock would fail for it. So this command hands its stdin,
stdout and stderr to a process that has everything loaded (warm_keeper), which forks a server onto them.
Standard library only, and little of it.
"""

import os
import socket
import sys

_STREAMS = [0, 1, 2]


def main() -> int:
    with socket.socket(socket.AF_UNIX) as keeper:
        keeper.connect(sys.argv[1])
        socket.send_fds(keeper, ["\0".join(sys.argv[2:]).encode()], _STREAMS)
        # Whoever reads our stdout must see its end when the server ends, not when we do.
        for stream in _STREAMS[:2]:
            os.close(stream)
        exit_code = keeper.recv(1)
    return exit_code[0] if exit_code else 1


if __name__ == "__main__":
    sys.exit(main())
