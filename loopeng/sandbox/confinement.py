"""What a process of generated code takes upon itself before that code is loaded, in every tier.

- **Limits** of the system (rlimits): processor time, number of open files, nothing written to a file, no core dumps,
  and memory where the system can.
- **Rights** of the superuser (capabilities, Linux): all given up, for good.
- **System calls** (seccomp, Linux on x86-64 and ARM-64): no new process or program, no signal to anybody, no network,
  no looking into other processes, no file made or deleted, no limit changed, nothing that outlives the process. Threads
  are allowed. What is newer than this list does not exist.
- **Files** (Landlock, Linux 5.13 and newer): reads Python's own library, writes nowhere; and the memory, environment
  and descriptors of other processes cannot be read. Without this, code that means harm can read the tests: what it
  passes proves nothing.

Where one of these is missing, what is returned lacks its name, and the tier says what that means. Loaded into
the candidate's interpreter; imports what it needs inside.
"""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["confine", "syscall_filter"]

_IS_LINUX = sys.platform == "linux"
_Instruction = tuple[int, int, int, int]  # operation, jump if so, jump if not, value
_LOAD, _EQUAL, _AT_LEAST, _BITS = 0x20, 0x15, 0x35, 0x45
_ALLOW: _Instruction = (0x06, 0, 0, 0x7FFF0000)
_REFUSE: _Instruction = (0x06, 0, 0, 0x00050000 | 1)  # EPERM
_UNKNOWN: _Instruction = (0x06, 0, 0, 0x00050000 | 38)  # ENOSYS
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # audit architecture, column of the table
_CLONE_THREAD = 0x00010000
# Refused system calls: numbers on x86-64 and ARM-64, None where there is none.
_REFUSED: tuple[tuple[int | None, int | None], ...] = (
    *((57, None), (58, None), (59, 221), (322, 281)),  # fork, vfork, execve, execveat
    *((62, 129), (200, 130), (234, 131), (129, 138), (297, 240), (424, 424), (434, 434), (438, 438)),  # signals, pidfd
    *((222, 107),),  # timers that send any signal
    *((101, 117), (310, 270), (311, 271), (312, 272)),  # ptrace, process_vm_readv and writev, kcmp
    *((41, 198), (42, 203), (44, 206), (46, 211), (307, 269), (425, 425)),  # socket, connect, send*, io_uring
    *((112, 157), (109, 154), (141, 140), (203, 122), (251, 30), (144, 119), (160, 164)),  # setsid, priorities, limits
    *((29, 194), (68, 186), (64, 190), (240, 180)),  # System V and POSIX message objects outlive a process
    *((272, 97), (308, 268), (165, 40), (166, 39), (161, 51), (155, 41)),  # namespaces, mounts
    *((428, 428), (429, 429), (430, 430), (442, 442)),  # newer ways to mount
    *((83, None), (258, 34), (133, None), (259, 33), (88, None), (266, 36), (86, None), (265, 37)),  # folders, links
    *((82, None), (264, 38), (316, 276), (84, None), (87, None), (263, 35), (76, 45)),  # rename, delete, truncate
    *((90, None), (91, 52), (268, 53), (452, 452), (92, None), (93, 55), (94, None), (260, 54)),  # modes and owners
    *((132, None), (235, None), (261, None), (280, 88)),  # times of files
    *((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16)),  # extended attributes
    *((248, 217), (249, 218), (250, 219), (321, 280), (298, 241), (323, 282)),  # keys, bpf, perf, userfaultfd
    *((303, 264), (304, 265), (175, 105), (313, 273), (176, 106), (246, 104), (169, 142)),  # handles, modules, reboot
    *((164, 170), (227, 112), (159, 171), (305, 266), (170, 161), (171, 162), (167, 224), (168, 225)),  # clocks, swap
)
_FIRST_UNKNOWN = 453  # the numbers from here on are newer than the table; the second convention of x86 is far above
_CLONE, _CLONE3, _FCNTL, _PRLIMIT, _IOCTL, _PRCTL = (56, 220), (435, 435), (72, 25), (302, 261), (16, 29), (157, 167)
_SIGNALLING = (8, 15, 10)  # F_SETOWN, F_SETOWN_EX, F_SETSIG: a descriptor that sends signals
_HARMLESS = (0x5401, 0x5413, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONCLEX, FIOCLEX: all that Python asks of ioctl
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def confine(memory_bytes: int, cpu_s: int) -> list[str]:
    """Give up everything a called function does not need. Returns what holds: limits, memory, files, system calls."""
    libc = _without_rights() if _IS_LINUX else None
    files = libc is not None and _restrict_files(libc)
    memory = _limit(memory_bytes, cpu_s)
    calls = libc is not None and _filter_calls(libc)
    if not calls:
        _limit_processes()
    also = {"memory": memory, "files": files, "system calls": calls}
    return ["limits", *(name for name, holds in also.items() if holds)]


def _limit(memory_bytes: int, cpu_s: int) -> bool:
    """Whether memory is limited too: macOS knows that limit and refuses to set it."""
    import resource

    memory = True

    wanted = {
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_CPU": (cpu_s, cpu_s * (1 + (os.cpu_count() or 1))),  # killed only if it lives on without a clock
        "RLIMIT_NOFILE": (64, 64),
        "RLIMIT_AS": (memory_bytes, memory_bytes),
        "RLIMIT_FSIZE": (0, 0),  # last: from here on even a complaint has nowhere to go
    }
    for name, (soft, hard) in wanted.items():
        kind = getattr(resource, name)
        most = resource.getrlimit(kind)[1]
        bounds = (soft, hard) if most == resource.RLIM_INFINITY else (min(soft, most), min(hard, most))
        try:
            resource.setrlimit(kind, bounds)
        except (OSError, ValueError):
            if name != "RLIMIT_AS" or _IS_LINUX:
                raise
            memory = False
    return memory


def _limit_processes() -> None:
    """Where system calls are not filtered; the superuser is not bound by it."""
    import resource

    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _without_rights() -> Any:
    """No right of the superuser any more: with them limits could be raised and devices made. The C library, or None."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        return None
    third_version_of_self = int.to_bytes(0x20080522, 4, sys.byteorder) + bytes(4)
    if libc.capset(third_version_of_self, bytes(24)):
        raise OSError(ctypes.get_errno(), "the rights of the superuser cannot be given up")
    libc.prctl(_DEATH_SIGNAL, 9, 0, 0, 0)  # SIGKILL when whatever started this process is gone
    return libc


def _filter_calls(libc: Any) -> bool:
    import ctypes

    program = syscall_filter(os.uname().machine)
    if program is None:
        return False
    instructions = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    argument = Program(len(program) // 8, ctypes.addressof(instructions))
    return bool(libc.prctl(22, 2, ctypes.byref(argument), 0, 0) == 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def syscall_filter(machine: str) -> bytes | None:
    """The filter as the kernel reads it (8 bytes an instruction); None for a processor it is not written for."""
    if machine not in _MACHINES:
        return None
    architecture, column = _MACHINES[machine]
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), _REFUSE, (_LOAD, 0, 0, 0)]
    code += [(_AT_LEAST, 0, 1, _FIRST_UNKNOWN), _UNKNOWN]
    code += [(_EQUAL, 0, 1, _CLONE3[column]), _UNKNOWN]  # then threads are made with clone
    for each in _REFUSED:
        if (number := each[column]) is not None:
            code += [(_EQUAL, 0, 1, number), _REFUSE]
    only_threads = [(_LOAD, 0, 0, _argument(0)), (_BITS, 1, 0, _CLONE_THREAD), _REFUSE, _ALLOW]
    only_own_limits = [
        *((_LOAD, 0, 0, _argument(0)), (_EQUAL, 0, 4, 0)),  # of itself
        *((_LOAD, 0, 0, _argument(2)), (_EQUAL, 0, 2, 0)),  # and nothing new: both halves of a pointer to nowhere
        *((_LOAD, 0, 0, _argument(2) + 4), (_EQUAL, 1, 0, 0)),
        *(_REFUSE, _ALLOW),
    ]
    for numbers, block in (
        (_CLONE, only_threads),
        (_PRLIMIT, only_own_limits),
        (_FCNTL, _if_among(1, _SIGNALLING, _REFUSE, _ALLOW)),
        (_IOCTL, _if_among(1, _HARMLESS, _ALLOW, _REFUSE)),
        (_PRCTL, _if_among(0, (_DEATH_SIGNAL,), _REFUSE, _ALLOW)),
    ):
        code += [(_EQUAL, 0, len(block), numbers[column]), *block]
    code.append(_ALLOW)
    pack = int.to_bytes
    return b"".join(pack(op, 2, "little") + bytes((yes, no)) + pack(k, 4, "little") for op, yes, no, k in code)


def _argument(index: int) -> int:
    """Where the low half of an argument stands."""
    return 16 + 8 * index


def _if_among(index: int, values: tuple[int, ...], then: _Instruction, otherwise: _Instruction) -> list[_Instruction]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [(_LOAD, 0, 0, _argument(index)), *tests, otherwise, then]


def _restrict_files(libc: Any) -> bool:
    """Landlock: everything about files is refused but reading Python's library."""
    import ctypes

    create, add, restrict = 444, 445, 446
    version = libc.syscall(create, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    handled = (1 << (13 + (version >= 2) + (version >= 3))) - 1 | ((1 << 15) if version >= 5 else 0)
    ruleset = libc.syscall(create, ctypes.byref(ctypes.c_uint64(handled)), ctypes.c_size_t(8), 0)
    if ruleset < 0:
        return False
    read, of_a_file = 0b1100, 0b110 | (1 << 14 & handled)
    for path, access in [("/dev/null", of_a_file), *((path, read) for path in _readable())]:
        try:
            beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        wanted = access if os.path.isdir(path) else access & of_a_file
        rule = int.to_bytes(wanted, 8, sys.byteorder) + int.to_bytes(beneath, 4, sys.byteorder)
        failed = libc.syscall(add, ruleset, 1, rule, 0)
        os.close(beneath)
        if failed:
            return False
    done = libc.syscall(restrict, ruleset, 0)
    os.close(ruleset)
    return bool(done == 0)


def _readable() -> list[str]:
    library = os.path.dirname(os.__file__)
    own = [library] if sys.base_prefix in ("/", "/usr") else [library, os.path.join(sys.base_prefix, "lib")]
    system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo"]
    return [*own, *system, "/dev/urandom", "/dev/random"]
