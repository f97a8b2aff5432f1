"""The client of the fork server: has it run a command with this process's streams, and exits as it exits.

Imports almost nothing, because its imports slow down every start: `socket`, `signal` and `json` take as long as Python.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import os
import sys


def ask(
    address: str, files: list[int], folder: bytes, environment: dict[bytes, bytes], arguments: list[bytes]
) -> _socket.socket:
    """Ask the fork server for a process with these streams; first its id, then its exit code arrive on the line.

    Who closes the line kills the process.
    """
    variables = [name + b"=" + value for name, value in environment.items()]
    text = b"\0".join([folder, b"%d" % len(arguments), *arguments, *variables])
    passed = b"".join(number.to_bytes(4, sys.byteorder) for number in files)
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    line.connect(address)
    line.sendmsg([len(text).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
    line.sendall(text)
    return line


def read_number(line: _socket.socket) -> int:
    """Read a process id or an exit code; the code of a process that was killed is negative."""
    read = line.recv(4)
    if len(read) < 4:
        sys.exit("The fork server has ended.")
    return int.from_bytes(read, "big", signed=True)


def main(address: str, *arguments: str) -> None:
    words = [os.fsencode(word) for word in arguments]
    line = ask(address, [0, 1, 2], os.getcwdb(), dict(os.environb), words)  # noqa: PTH109
    pid = read_number(line)

    def pass_on(number: int, _: object) -> None:
        try:  # noqa: SIM105 - contextlib would have to be imported
            os.kill(pid, number)
        except ProcessLookupError:  # it has ended, and its exit code is about to arrive
            pass

    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGUSR1):
        _signal.signal(number, pass_on)
    ended = read_number(line)
    if ended < 0:
        _signal.signal(-ended, _signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    os._exit(ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
