"""System calls that a question's process gives up for good: whatever could outlive it, leave it, or reach another.

It can start no process, run no program, open no socket, signal and inspect nobody but itself, change no file, no clock
and no name, and mount, trace or load nothing. Threads it can have. Calls that came after this list was made are taken
as not there. Linux only (seccomp(2), "filter"); where the system has no such filter the process ends with its jail, and
no other question runs there.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER, _SET_DUMPABLE = 38, 22, 2, 4
_LOAD, _EQUAL, _SET, _LESS_NOT, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06  # ld [k]; jeq #k; jset #k; jge #k; ret #k
_ALLOW, _ERRNO, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_EPERM, _EFAULT, _ENOSYS = 1, 14, 38
_NUMBER, _MACHINE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = (
    0,
    4,
    16,
    24,
)  # offsets in seccomp_data; arguments are little-endian
_CLONE_THREAD = 0x0001_0000
_X32 = 0x4000_0000

_AUDIT = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X86_64 = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "socket": 41, "connect": 42, "bind": 49, "listen": 50,
    "socketpair": 53, "ptrace": 101, "kill": 62, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "pidfd_send_signal": 424, "pidfd_open": 434, "pidfd_getfd": 438, "mount": 165, "umount2": 166, "pivot_root": 155,
    "chroot": 161, "setns": 308, "unshare": 272, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
    "io_uring_setup": 425, "keyctl": 250, "add_key": 248, "request_key": 249, "init_module": 175, "finit_module": 313,
    "kexec_load": 246, "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "shmat": 30, "msgget": 68, "semget": 64,
    "mq_open": 240, "mknod": 133, "mknodat": 259, "setrlimit": 160, "personality": 135,
    "process_madvise": 440, "kcmp": 312, "mkdir": 83, "mkdirat": 258, "symlink": 88, "symlinkat": 266, "link": 86,
    "linkat": 265, "creat": 85, "setpriority": 141, "sched_setaffinity": 203, "setsid": 112, "setpgid": 109,
    "sched_setparam": 142, "sched_setscheduler": 144, "sched_setattr": 314, "ioprio_set": 251, "migrate_pages": 256,
    "move_pages": 279, "sethostname": 170, "setdomainname": 171, "settimeofday": 164, "clock_settime": 227,
    "adjtimex": 159, "clock_adjtime": 305, "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179,
    "syslog": 103, "vhangup": 153, "iopl": 172, "ioperm": 173, "delete_module": 176, "kexec_file_load": 320,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "fanotify_init": 300, "fanotify_mark": 301,
    "inotify_init": 253, "inotify_init1": 294, "rename": 82, "renameat": 264, "renameat2": 316, "unlink": 87,
    "unlinkat": 263, "rmdir": 84, "truncate": 76, "fallocate": 285, "chmod": 90, "fchmod": 91, "fchmodat": 268,
    "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261,
    "utimensat": 280, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
    "fremovexattr": 199, "setuid": 105, "setgid": 106, "setreuid": 113, "setregid": 114, "setgroups": 116,
    "setresuid": 117, "setresgid": 119, "setfsuid": 122, "setfsgid": 123, "capset": 126,
}  # fmt: skip
_AARCH64 = {
    "execve": 221, "execveat": 281, "socket": 198, "connect": 203, "bind": 200, "listen": 201, "socketpair": 199,
    "ptrace": 117, "kill": 129, "tkill": 130, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240,
    "pidfd_send_signal": 424, "pidfd_open": 434, "pidfd_getfd": 438, "mount": 40, "umount2": 39, "pivot_root": 41,
    "chroot": 51, "setns": 268, "unshare": 97, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
    "io_uring_setup": 425, "keyctl": 219, "add_key": 217, "request_key": 218, "init_module": 105, "finit_module": 273,
    "kexec_load": 104, "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "shmat": 196, "msgget": 186,
    "semget": 190, "mq_open": 180, "mknodat": 33, "setrlimit": 164, "personality": 92,
    "process_madvise": 440, "kcmp": 272, "mkdirat": 34, "symlinkat": 36, "linkat": 37, "setpriority": 140,
    "sched_setaffinity": 122, "setsid": 157, "setpgid": 154,
    "sched_setparam": 118, "sched_setscheduler": 119, "sched_setattr": 274, "ioprio_set": 30, "migrate_pages": 238,
    "move_pages": 239, "sethostname": 161, "setdomainname": 162, "settimeofday": 170, "clock_settime": 112,
    "adjtimex": 171, "clock_adjtime": 266, "reboot": 142, "swapon": 224, "swapoff": 225, "acct": 89, "quotactl": 60,
    "syslog": 116, "vhangup": 58, "delete_module": 106, "kexec_file_load": 294, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "fanotify_init": 262, "fanotify_mark": 263, "inotify_init1": 26, "renameat": 38,
    "renameat2": 276, "unlinkat": 35, "truncate": 45, "fallocate": 47, "fchmod": 52, "fchmodat": 53, "fchownat": 54,
    "fchown": 55, "utimensat": 88, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14,
    "lremovexattr": 15, "fremovexattr": 16, "setregid": 143, "setgid": 144, "setreuid": 145, "setuid": 146,
    "setresuid": 147, "setresgid": 149, "setfsuid": 151, "setfsgid": 152, "setgroups": 159, "capset": 91,
}  # fmt: skip
_FORBIDDEN = {"x86_64": _X86_64, "aarch64": _AARCH64}
_CLONE = {"x86_64": 56, "aarch64": 220}
_NEW, _NEW_AND_HARMLESS = 424, (436, 437, 439, 449)
"""From here on calls have the same number everywhere (mounts, handles, io_uring …): as if they were not there, but
close_range, openat2, faccessat2 and futex_waitv. The C library and Python then take older ones, clone for clone3."""
_ACTS = {
    "x86_64": {72: (8, 10, 15), 16: (0x5412, 0x8901, 0x8902)},
    "aarch64": {25: (8, 10, 15), 29: (0x5412, 0x8901, 0x8902)},
}
"""What fcntl may not do (F_SETOWN, F_SETSIG, F_SETOWN_EX: signals to others), nor ioctl (TIOCSTI, FIOSETOWN,
SIOCSPGRP): by the call, values of the second argument."""
_OWN_STATE = {"x86_64": {157: (1, 4)}, "aarch64": {167: (1, 4)}}
"""What prctl may not do (PR_SET_PDEATHSIG, PR_SET_DUMPABLE): values of the first argument."""
_OWN_ONLY = {"x86_64": (234, 310, 311), "aarch64": (131, 270, 271)}
"""tgkill, process_vm_readv and process_vm_writev: of this process alone."""
_OF_CALLER = {"x86_64": 302, "aarch64": 261}
"""prlimit64: of the caller, which is 0."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def available() -> bool:
    """Does the system have such filters? (``prctl`` without one fails in another way where it has.)"""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_SECCOMP, _FILTER, None, 0, 0)
    return platform.machine() in _FORBIDDEN and ctypes.get_errno() == _EFAULT


def restrict() -> bool:
    """Give the calls up, in this thread and those that it starts. False where the system cannot."""
    machine = platform.machine()
    if machine not in _FORBIDDEN:
        return False
    code = b"".join(struct.pack("<HBBI", *step) for step in _steps(machine))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0):
        return False
    return bool(libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0)


def _steps(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter: ``(operation, jump if true, jump if false, constant)``."""
    steps = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, _AUDIT[machine]), (_RETURN, 0, 0, _KILL)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_SET, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    for number in sorted(_FORBIDDEN[machine].values()):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    for number in _NEW_AND_HARMLESS:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    steps += [(_LESS_NOT, 0, 1, _NEW), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    steps += [
        (_EQUAL, 0, 4, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_SET, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    own = [(number, os.getpid()) for number in _OWN_ONLY[machine]]
    for number, wanted in [*own, (_OF_CALLER[machine], 0)]:
        steps += [
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_EQUAL, 1, 0, wanted),
            (_RETURN, 0, 0, _ERRNO | _EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    for argument, table in ((_SECOND_ARGUMENT, _ACTS), (_FIRST_ARGUMENT, _OWN_STATE)):
        for number, values in table[machine].items():
            refused = [step for one in values for step in ((_EQUAL, 0, 1, one), (_RETURN, 0, 0, _ERRNO | _EPERM))]
            block = [(_LOAD, 0, 0, argument), *refused, (_RETURN, 0, 0, _ALLOW)]
            steps += [(_EQUAL, 0, len(block), number), *block]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]
