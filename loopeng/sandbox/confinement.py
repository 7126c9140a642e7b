"""What a process of generated code takes upon itself before that code is loaded, in every tier.

- **Limits** of the system (rlimits): memory, processor time, size and number of files, no core dumps.
- **System calls** (seccomp, Linux on x86-64 and ARM-64): no new process or program, no signal to anybody, no network,
  no looking into other processes, nothing that outlives the process. Threads are allowed.
- **Files** (Landlock, Linux 5.13 and newer): reads Python's own library, writes in its own folder only; and the memory,
  environment and descriptors of other processes cannot be read.

Where one of the last two is missing, what is returned lacks its name, and the tier says what that means. Loaded into
the candidate's interpreter; imports what it needs inside.
"""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["confine", "syscall_filter"]

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # audit architecture, column of the table
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
# Refused system calls: numbers on x86-64 and ARM-64, None where there is none.
_REFUSED: tuple[tuple[int | None, int | None], ...] = (
    *((57, None), (58, None), (59, 221), (322, 281)),  # fork, vfork, execve, execveat
    *((62, 129), (200, 130), (234, 131), (129, 138), (297, 240), (424, 424), (434, 434), (438, 438)),  # signals, pidfd
    *((101, 117), (310, 270), (311, 271), (312, 272)),  # ptrace, process_vm_readv and writev, kcmp
    *((41, 198), (42, 203), (44, 206), (46, 211), (307, 269), (425, 425)),  # socket, connect, send*, io_uring
    *((112, 157), (109, 154), (141, 140), (203, 122), (251, 30), (144, 119)),  # setsid, setpgid, priorities
    *((29, 194), (68, 186), (64, 190), (240, 180)),  # System V and POSIX message objects outlive a process
    *((272, 97), (308, 268), (165, 40), (166, 39), (161, 51), (155, 41), (429, 429), (430, 430)),  # namespaces, mounts
    *((90, None), (91, 52), (268, 53), (452, 452), (92, None), (93, 55), (94, None), (260, 54)),  # modes and owners
    *((132, None), (235, None), (261, None), (280, 88)),  # times of files
    *((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16)),  # extended attributes
    *((248, 217), (249, 218), (250, 219), (321, 280), (298, 241), (323, 282)),  # keys, bpf, perf, userfaultfd
    *((303, 264), (304, 265), (175, 105), (313, 273), (176, 106), (246, 104), (169, 142)),  # handles, modules, reboot
    *((164, 170), (227, 112), (170, 161), (171, 162), (167, 224), (168, 225)),  # clocks, names, swap
)
_CLONE, _CLONE3, _FCNTL, _PRLIMIT = (56, 220), (435, 435), (72, 25), (302, 261)
_SIGNALLING = (8, 15, 10)  # F_SETOWN, F_SETOWN_EX, F_SETSIG: a descriptor that sends signals


def confine(memory_bytes: int, cpu_s: int, file_bytes: int, folder: str) -> list[str]:
    """Give up everything a called function does not need. Returns what holds: limits, system calls, files."""
    _limit(memory_bytes, cpu_s, file_bytes)
    held = ["limits"]
    if sys.platform == "linux":
        held += _confine_linux(folder)
    if "system calls" not in held:
        _limit_processes()
    return held


def _limit(memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    import resource

    wanted = {
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_CPU": (cpu_s, cpu_s + 1),
        "RLIMIT_FSIZE": (file_bytes, file_bytes),
        "RLIMIT_NOFILE": (64, 64),
        "RLIMIT_AS": (memory_bytes, memory_bytes),
    }
    for name, (soft, hard) in wanted.items():
        kind = getattr(resource, name)
        most = resource.getrlimit(kind)[1]
        bounds = (soft, hard) if most == resource.RLIM_INFINITY else (min(soft, most), min(hard, most))
        try:
            resource.setrlimit(kind, bounds)
        except (OSError, ValueError):
            if name != "RLIMIT_AS" or sys.platform == "linux":  # macOS knows the limit and refuses to set it
                raise


def _limit_processes() -> None:
    """Where system calls are not filtered; the superuser is not bound by it."""
    import resource

    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _confine_linux(folder: str) -> list[str]:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        return []
    held = ["files"] if _restrict_files(libc, folder) else []
    program = syscall_filter(os.uname().machine)
    if program is None:
        return held
    instructions = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    argument = Program(len(program) // 8, ctypes.addressof(instructions))
    done = libc.prctl(22, 2, ctypes.byref(argument), 0, 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    return [*held, "system calls"] if done == 0 else held


def syscall_filter(machine: str) -> bytes | None:
    """The filter as the kernel reads it (8 bytes an instruction); None for a processor it is not written for."""
    if machine not in _MACHINES:
        return None
    architecture, column = _MACHINES[machine]
    load, equal, at_least, bits, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse, unknown = 0x7FFF0000, 0x00050000 | _EPERM, 0x00050000 | _ENOSYS
    number_at, architecture_at, first, second = 0, 4, 16, 24  # in struct seccomp_data, low halves of the arguments

    code: list[tuple[int, int, int, int]] = [
        (load, 0, 0, architecture_at),
        (equal, 1, 0, architecture),
        (give, 0, 0, refuse),
        (load, 0, 0, number_at),
    ]
    code += [(at_least, 0, 1, 0x40000000), (give, 0, 0, refuse)]  # the second calling convention of x86
    code += [(equal, 0, 1, _CLONE3[column]), (give, 0, 0, unknown)]  # then threads are made with clone
    for each in _REFUSED:
        if (number := each[column]) is not None:
            code += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    code += [(equal, 0, 4, _CLONE[column]), (load, 0, 0, first), (bits, 1, 0, _CLONE_THREAD)]
    code += [(give, 0, 0, refuse), (give, 0, 0, allow)]
    code += [(equal, 0, 4, _PRLIMIT[column]), (load, 0, 0, first), (equal, 1, 0, 0)]
    code += [(give, 0, 0, refuse), (give, 0, 0, allow)]
    code += [(equal, 0, 6, _FCNTL[column]), (load, 0, 0, second)]
    code += [(equal, 3 - index, 0, command) for index, command in enumerate(_SIGNALLING)]
    code += [(give, 0, 0, allow), (give, 0, 0, refuse)]
    code.append((give, 0, 0, allow))
    pack = int.to_bytes
    return b"".join(pack(op, 2, "little") + bytes((yes, no)) + pack(k, 4, "little") for op, yes, no, k in code)


def _restrict_files(libc: Any, folder: str) -> bool:
    """Landlock: everything about files is refused but reading Python's library and using ``folder``."""
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
    for path, access in [(folder, handled), ("/dev/null", of_a_file), *((path, read) for path in _readable())]:
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
