"""The client of the fork server: has it run a command with this process's streams, and exits as it exits.

Imports almost nothing, because its imports slow down every start.
"""

import json
import os
import signal
import socket
import sys


def main(address: str, *arguments: str) -> None:
    asked = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
    text = json.dumps(asked).encode()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        socket.send_fds(line, [len(text).to_bytes(4, "big")], [0, 1, 2])
        line.sendall(text)
        pid = int.from_bytes(line.recv(4), "big")

        def pass_on(number: int, _: object) -> None:
            try:  # noqa: SIM105 - contextlib would have to be imported
                os.kill(pid, number)
            except ProcessLookupError:  # it has ended, and its exit code is about to arrive
                pass

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, pass_on)
        ended = int.from_bytes(line.recv(4), "big", signed=True)
    if ended < 0:
        signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    os._exit(ended)


main(*sys.argv[1:])
