"""A network and a family of processes of a test's own.

Pages name the default ports. In a network namespace of its own each page may
use them whatever else runs on the machine.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import time

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_PR_SET_CHILD_SUBREAPER = 36
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
# Where there are no namespaces, pages run one at a time.
_LOCK = '/tmp/comera-docs-ports.%d.lock' % os.getuid()
_PORTS = (*range(7400, 7410), 7480)

_libc = ctypes.CDLL(None, use_errno=True)


def enter_private_network():
    """Gives this process a network with loopback alone; False: not allowed."""
    user, group = os.getuid(), os.getgid()
    if user == 0 and _libc.unshare(_CLONE_NEWNET) == 0:
        _bring_loopback_up()
        return True
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    with open('/proc/self/setgroups', 'w', encoding='ascii') as file:
        file.write('deny')
    for name, number in (('uid_map', user), ('gid_map', group)):
        with open(f'/proc/self/{name}', 'w', encoding='ascii') as file:
            file.write(f'{number} {number} 1')
    _bring_loopback_up()
    return True


def _bring_loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack('16sH22x', b'lo', 0)
        answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, request)
        flags = struct.unpack('16sH22x', answer)[1] | _IFF_UP
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack('16sH22x', b'lo', flags))


def reserve_ports():
    """Waits for its turn on the shared network. A port in use, or None."""
    lock = open(_LOCK, 'w', encoding='ascii')  # pylint: disable=R1732
    fcntl.flock(lock, fcntl.LOCK_EX)
    reserve_ports.lock = lock  # until the process ends
    for port in _PORTS:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(('127.0.0.1', port))
            except OSError:
                return port
    return None


def adopt_orphans():
    """What a page leaves behind becomes a child of this process."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants():
    """Ids of all processes below this one."""
    children = {}
    for entry in os.listdir('/proc'):
        if not entry.isdigit():
            continue
        try:
            with open(f'/proc/{entry}/stat', encoding='latin-1') as file:
                parent = int(file.read().rpartition(')')[2].split()[1])
        except OSError:
            continue  # it has ended
        children.setdefault(parent, []).append(int(entry))
    found, queue = [], [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def end_descendants(grace_s=20):
    """SIGTERM, and SIGKILL for those that are still there after a while."""
    deadline = time.monotonic() + grace_s
    told = set()
    while True:
        _reap()
        left = descendants()
        if not left:
            return
        late = time.monotonic() > deadline
        for process in left:
            if late or process not in told:
                told.add(process)
                try:
                    os.kill(process, signal.SIGKILL if late else
                            signal.SIGTERM)
                except ProcessLookupError:
                    pass
        time.sleep(0.05)


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
