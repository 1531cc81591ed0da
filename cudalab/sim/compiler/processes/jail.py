"""Sandboxes for the helper process that compiles untrusted sources.

NVRTC's preprocessor opens any file it is told to. ``includes.py`` refuses such sources beforehand; the
walls here hold if something gets past it. Two kinds, used together where the machine has them:

- **Landlock** (Linux 5.13): the process gives up, for good, the right to open anything but the folders
  it needs. No privilege and no program is needed.
- **bwrap** (bubblewrap): the process starts in namespaces of its own: no network, no other processes,
  and a file system that holds only the folders it needs.

On other systems there are none; ``kinds()`` says so, and a grader must say it aloud.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

# Linux system call numbers; the same on every architecture (asm-generic/unistd.h).
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38  # prctl
# linux/landlock.h: access rights, and the ABI version that brought them.
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_FILE_RIGHTS = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_NETWORK_ABI, _NETWORK_RIGHTS = 4, 0b11  # bind, connect
_SCOPE_ABI, _SCOPES = 6, 0b11  # abstract sockets, signals


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def landlock_version() -> int:
    """The kernel's Landlock ABI version, 0 where it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return max(int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)), 0)


def restrict(readable: Iterable[str]) -> bool:
    """Let this thread, and threads it starts, open nothing but files beneath ``readable``, for reading.

    Call it before starting threads. False where the kernel has no Landlock.
    """
    version = landlock_version()
    if not version:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    rights = sum(bits for since, bits in _FILE_RIGHTS if since <= version)
    ruleset = _Ruleset(rights, 0, 0)
    size = 8
    if version >= _NETWORK_ABI:
        ruleset.network, size = _NETWORK_RIGHTS, 16
    if version >= _SCOPE_ABI:
        ruleset.scoped, size = _SCOPES, 24
    descriptor = libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    if descriptor < 0:
        return False
    try:
        for path in readable:
            _allow(libc, descriptor, path)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_RESTRICT_SELF, descriptor, 0) == 0)
    finally:
        os.close(descriptor)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = _READ_FILE | _EXECUTE | (_READ_FOLDER if os.path.isdir(path) else 0)
        rule = _PathBeneath(rights, parent)
        libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)


# --------------------------------------------------------------------------------------- bwrap


@functools.cache
def bwrap() -> str:
    """The path of a ``bwrap`` that works here, ``""`` where there is none or it may not make namespaces, nor mount in
    them what a jail needs: in some containers it can make them and mount no ``/proc``."""
    program = shutil.which("bwrap") if sys.platform.startswith("linux") else None
    if not program:
        return ""
    command = [program, "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return program if done.returncode == 0 else ""


def bwrap_command(program: str, folders: Sequence[str], working_folder: str, *, bare: bool = False) -> list[str]:
    """The beginning of a command line that starts a process which sees only ``folders``, read-only. ``bare``: it keeps
    its environment, and has no ``/proc`` and no folder that it can write to."""
    command = [program, "--unshare-all", "--cap-drop", "ALL", "--dev", "/dev"]  # root would keep rights in there
    if not bare:
        command += ["--clearenv", "--proc", "/proc", "--tmpfs", "/tmp"]
    for path in ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/ld.so.cache"):
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    for folder in folders:
        command += ["--ro-bind-try", folder, folder]
    command += ["--dir", working_folder, "--chdir", working_folder]
    return [*command, *(["--remount-ro", "/", "--remount-ro", "/dev"] if bare else []), "--"]


def kinds() -> tuple[str, ...]:
    """The walls that this machine has: of ``landlock`` and ``bwrap``."""
    found = ["landlock"] if landlock_version() else []
    return (*found, "bwrap") if bwrap() else tuple(found)


def readable_folders(package: str, modules: Iterable[str], headers: Iterable[str]) -> list[str]:
    """What a compiling process must be able to read: Python's library, ``package`` (the folder of
    ``cudalab.sim``), the folders of ``modules`` (files of native libraries) and of ``headers``."""
    paths = sysconfig.get_paths()
    wanted = [paths["stdlib"], paths["platstdlib"], *_python(), package, *modules, *headers]
    real = [str(Path(path).resolve()) for path in wanted if path]
    return list(dict.fromkeys([*(path for path in wanted if path), *real]))


def _python() -> list[str]:
    """The interpreter itself: a virtual environment's link, and where it leads."""
    executable = sys.executable
    library = os.path.join(sys.base_prefix, "lib")
    shared = [str(path) for path in Path(library).glob("libpython*.so*")] if sys.platform != "win32" else []
    configuration = os.path.join(sys.prefix, "pyvenv.cfg")
    return [executable, os.path.realpath(executable), configuration, *shared]
