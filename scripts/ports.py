#!/usr/bin/env python3
"""Ports of this machine that only this process uses, until it ends. crates/scratch/src/ports.rs says how and why: both lease from the same
blocks, by Unix sockets with the names of the blocks. As a program, for shells: `scripts/ports.py PID` prints one, for as long as the
process PID is there.
"""
import errno, os, random, select, socket, sys

FIRST, END, BLOCK_PORTS = 10_000, 32_768, 64
BLOCKS = (END - FIRST) // BLOCK_PORTS
_held, _fresh = [], []


def _lease():
    start = random.SystemRandom().randrange(BLOCKS)
    for block in ((start + offset) % BLOCKS for offset in range(BLOCKS)):
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            name.bind(f"\0darter-ports-{block}")
        except OSError as error:
            name.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        _held.append(name)
        _fresh.extend(range(FIRST + block * BLOCK_PORTS, FIRST + (block + 1) * BLOCK_PORTS))
        return
    sys.exit("all ports for tests are leased")


def _is_free(port):
    for family, address in (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"):
        try:
            probe = socket.socket(family)
        except OSError:
            continue
        with probe:
            # Only bound: a socket that listens, and that a child inherits for a moment, would keep the server from its port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True


def free_port():
    while True:
        if not _fresh:
            _lease()
        port = _fresh.pop(0)
        if _is_free(port):
            return port


def main():
    process = os.pidfd_open(int(sys.argv[1]))
    print(free_port(), flush=True)
    if os.fork() == 0:
        # Whoever reads the port waits for the end of what is written. The child has the lease as well.
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(1, 2)
        select.select([process], [], [])


if __name__ == "__main__":
    main()
