"""The system call filter of the process sandbox, as the classic BPF program that `bwrap --seccomp` takes.

It refuses what no MCP server needs and what exploits of the kernel like best: tracing other processes, new
namespaces and mounts, BPF, `io_uring`, kernel keys and modules, the clock, odd kinds of sockets. Everything
else is allowed, so that ordinary programs run; the namespaces and Landlock say what they can reach. Calls
newer than this list answer "not implemented", which C libraries know how to live with.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

_LOAD, _EQUALS, _GREATER, _GREATER_OR_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
# Offsets in `struct seccomp_data`: the low halves of the arguments, on little-endian machines.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_LAST_KNOWN = 466
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020000
_TERMINAL_INJECTION = (0x5412, 0x541C)
_PLAIN_PERSONALITIES = (0, 0xFFFFFFFF)
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16

_REFUSED: dict[str, tuple[int, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "unshare": (272, 97), "setns": (308, 268),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "create_module": (174, None),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "lookup_dcookie": (212, 18),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "syslog": (103, 116),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "nfsservctl": (180, 42),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
    "_sysctl": (156, None), "sysfs": (139, None), "ustat": (136, None),
    "mbind": (237, 235), "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip
"""Numbers on x86-64 and on 64-bit ARM."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """What differs between the processors we know."""

    column: int
    audit: int
    clone: int
    socket: int
    ioctl: int
    personality: int


_MACHINES = {
    "x86_64": _Machine(0, 0xC000003E, clone=56, socket=41, ioctl=16, personality=135),
    "aarch64": _Machine(1, 0xC00000B7, clone=220, socket=198, ioctl=29, personality=92),
}
_CLONE3 = 435


def supported(machine: str) -> bool:
    """Whether there is a filter for this processor, as `os.uname().machine` names it."""
    return machine in _MACHINES


def filter_program(machine: str) -> bytes:
    """The program for this processor; KeyError for one that is not `supported`."""
    its = _MACHINES[machine]
    numbers = {columns[its.column] for columns in _REFUSED.values()}
    refused = sorted(number for number in numbers if number is not None)
    blocks = [
        [_load(_ARCHITECTURE), *_unless(_EQUALS, its.audit, _KILL_PROCESS), _load(_NUMBER)],
        *([_when(_GREATER_OR_EQUAL, _X32_BIT, _fail(errno.ENOSYS))] if machine == "x86_64" else []),
        _when(_GREATER, _LAST_KNOWN, _fail(errno.ENOSYS)),
        # Its flags are behind a pointer a filter cannot follow; C libraries fall back to `clone`.
        _when(_EQUALS, _CLONE3, _fail(errno.ENOSYS)),
        _for_call(its.clone, [_load(_ARGUMENTS), *_when(_ANY_BIT, _NEW_NAMESPACES, _fail(errno.EPERM))]),
        _for_call(its.socket, _socket_block()),
        _for_call(its.ioctl, [_load(_ARGUMENTS + 8), *_any_of(_TERMINAL_INJECTION, _fail(errno.EPERM))]),
        _for_call(its.personality, _only(_PLAIN_PERSONALITIES, errno.EPERM)),
        *(_when(_EQUALS, number, _fail(errno.EPERM)) for number in refused),
        [_answer(_ALLOW)],
    ]
    return b"".join(instruction for block in blocks for instruction in block)


def _socket_block() -> list[bytes]:
    """Unix and internet sockets; of netlink only the route kind, which lists network interfaces."""
    netlink = [_load(_ARGUMENTS + 16), *_when(_EQUALS, 0, _ALLOW), _answer(_fail(errno.EAFNOSUPPORT))]
    return [
        _load(_ARGUMENTS),
        *_any_of((_UNIX, _INET, _INET6), _ALLOW),
        *_skip_unless(_NETLINK, netlink),
        _answer(_fail(errno.EAFNOSUPPORT)),
    ]


def _for_call(number: int, block: list[bytes]) -> list[bytes]:
    """A block for one call, which allows what it does not answer itself."""
    return _skip_unless(number, [*block, _answer(_ALLOW)])


def _only(values: tuple[int, ...], error: int) -> list[bytes]:
    return [_load(_ARGUMENTS), *_any_of(values, _ALLOW), _answer(_fail(error))]


def _any_of(values: tuple[int, ...], action: int) -> list[bytes]:
    return [instruction for value in values for instruction in _when(_EQUALS, value, action)]


def _when(test: int, value: int, action: int) -> list[bytes]:
    return [_jump(test, value, 0, 1), _answer(action)]


def _unless(test: int, value: int, action: int) -> list[bytes]:
    return [_jump(test, value, 1, 0), _answer(action)]


def _skip_unless(value: int, block: list[bytes]) -> list[bytes]:
    return [_jump(_EQUALS, value, 0, len(block)), *block]


def _load(offset: int) -> bytes:
    return struct.pack("<HBBI", _LOAD, 0, 0, offset)


def _jump(test: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("<HBBI", test, if_true, if_false, value)


def _answer(action: int) -> bytes:
    return struct.pack("<HBBI", _RETURN, 0, 0, action)


def _fail(error: int) -> int:
    return _ERRNO | error
