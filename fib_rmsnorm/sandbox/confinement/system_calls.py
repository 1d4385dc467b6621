"""The system calls that a confined process may not make, or only with some arguments."""

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ALL = 0xFFFFFFFF


@dataclass(frozen=True)
class ArgumentCheck:
    """A condition on the lower 32 bits of an argument: some of its bits are one of these values."""

    argument: int
    values: Sequence[int]
    bits: int = _ALL
    upper: bool = False
    """Whether the upper 32 bits are meant, as of an address that must be null."""
    suffices: bool = False
    """Whether the call is made if this holds, whatever the checks after it say. It has one value."""


@dataclass(frozen=True)
class Rule:
    """A system call that is made only if all checks hold, else it fails. Without a check, it always fails."""

    x86_64: int
    aarch64: int | None
    """None for a system call that this processor has not."""
    checks: tuple[ArgumentCheck, ...] = ()
    error: int = errno.EPERM


_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_AS_SIBLING = 0x8000  # CLONE_PARENT: the scheduler's child, which nobody would count as a descendant of its worker
_NEW_TIME_NAMESPACE = 0x80  # of unshare; to clone these bits are a signal
_UNIX, _STREAM, _SEQPACKET, _TYPE = 1, 1, 5, 0xF
_OF_PROCESS = 0
_IO_OF_PROCESS = 1
_COMMON_POLICIES = (0, 3, 5)  # SCHED_OTHER, SCHED_BATCH, SCHED_IDLE: none that takes cores from others
_ASK_PERSONALITY = _ALL
# Linux's own commands of fcntl but F_SETLEASE and F_NOTIFY: with a lease on a file, such as one of torch's, others wait
# for 45 s to open it, and a notification tells what they do in a folder.
_LINUX_FCNTL = 1024
_COMMANDS_OF_FCNTL = (1025, *range(1027, 1041))
_SET_ID_BITS = 0o6000
"""The bits of a mode by which a program runs as its owner or group, whoever starts it."""
_CREATES = 0o100 | 0o20000000
"""Flags of open: O_CREAT, O_TMPFILE. Without them its mode is not read."""
_LEAST_PRIORITY = 19


def rules(*, connects: bool, sends_files: bool = False) -> Mapping[str, Rule]:
    """The system calls that the process may not make. It may do to itself what OpenMP, torch and compilers do.

    `connects` says whether it may connect to sockets of this machine that lie in a folder, `sends_files` whether it may
    send open files. Those that nobody has received yet count for all of a user's processes: with some thousands on
    their way, no process of the user could send another.
    """
    of_itself = ArgumentCheck(0, (0, os.getpid()))
    itself_second = ArgumentCheck(1, (0, os.getpid()))
    nice = max(0, os.getpriority(os.PRIO_PROCESS, 0))
    reliable = ArgumentCheck(1, (_STREAM, _SEQPACKET), _TYPE)  # of others, each message may name another receiver
    return {
        # What reaches other processes.
        "prlimit64": Rule(302, 261, (of_itself,)),
        "sched_setaffinity": Rule(203, 122, (of_itself,)),
        "sched_setscheduler": Rule(144, 119, (of_itself, ArgumentCheck(1, _COMMON_POLICIES))),
        "sched_setparam": Rule(142, 118, (of_itself,)),
        "sched_setattr": Rule(314, 274),
        "setpriority": Rule(
            141,
            140,
            (ArgumentCheck(0, (_OF_PROCESS,)), itself_second, ArgumentCheck(2, range(nice, _LEAST_PRIORITY + 1))),
        ),
        "ioprio_set": Rule(251, 30, (ArgumentCheck(0, (_IO_OF_PROCESS,)), itself_second)),
        "move_pages": Rule(279, 239, (of_itself,)),
        "migrate_pages": Rule(256, 238, (of_itself,)),
        **_REACHES_OTHERS,
        "fcntl": Rule(
            72, 25, (ArgumentCheck(1, (0,), _LINUX_FCNTL, suffices=True), ArgumentCheck(1, _COMMANDS_OF_FCNTL))
        ),
        **_SETS_MODE,
        # Networks, and other programs' sockets.
        "socket": Rule(41, 198, (ArgumentCheck(0, (_UNIX,)), reliable), errno.EAFNOSUPPORT),
        "socketpair": Rule(53, 199, (ArgumentCheck(0, (_UNIX,)), reliable)),
        "sendto": Rule(44, 206, (ArgumentCheck(4, (0,)), ArgumentCheck(4, (0,), upper=True))),
        # The answer without a daemon: CUDA looks for one of MPS whenever it starts.
        **({} if connects else {"connect": Rule(42, 203, error=errno.ENOENT)}),
        **({} if connects or sends_files else {"sendmsg": Rule(46, 211), "sendmmsg": Rule(307, 269)}),
        # Namespaces, in which it would be root.
        "clone": Rule(56, 220, (ArgumentCheck(0, (0,), _NEW_NAMESPACES | _AS_SIBLING),)),
        "clone3": Rule(435, 435, error=errno.ENOSYS),  # its flags lie in memory; the C library uses clone then
        "unshare": Rule(272, 97, (ArgumentCheck(0, (0,), _NEW_NAMESPACES | _NEW_TIME_NAMESPACE),)),
        "personality": Rule(135, 92, (ArgumentCheck(0, (0, _ASK_PERSONALITY)),)),
        **_ADMINISTERS,
    }


def _without_set_id(argument: int) -> ArgumentCheck:
    return ArgumentCheck(argument, (0,), _SET_ID_BITS)


# A program of its own that ran as its user would let others of this machine be its user.
_SETS_MODE = {
    "chmod": Rule(90, None, (_without_set_id(1),)),
    "fchmod": Rule(91, 52, (_without_set_id(1),)),
    "fchmodat": Rule(268, 53, (_without_set_id(2),)),
    "fchmodat2": Rule(452, 452, (_without_set_id(2),)),
    "creat": Rule(85, None, (_without_set_id(1),)),
    "mknod": Rule(133, None, (_without_set_id(1),)),
    "mknodat": Rule(259, 33, (_without_set_id(2),)),
    "open": Rule(2, None, (ArgumentCheck(1, (0,), _CREATES, suffices=True), _without_set_id(2))),
    "openat": Rule(257, 56, (ArgumentCheck(2, (0,), _CREATES, suffices=True), _without_set_id(3))),
    "openat2": Rule(437, 437, error=errno.ENOSYS),  # its mode lies in memory; who calls it can do without
    # Attributes of files, such as lists of who may open them, need no right that Landlock knows.
    "setxattr": Rule(188, 5),
    "lsetxattr": Rule(189, 6),
    "fsetxattr": Rule(190, 7),
    "removexattr": Rule(197, 14),
    "lremovexattr": Rule(198, 15),
    "fremovexattr": Rule(199, 16),
    "setxattrat": Rule(463, 463),
    "removexattrat": Rule(466, 466),
    "file_setattr": Rule(469, 469),
}
_REACHES_OTHERS = {
    "ptrace": Rule(101, 117),
    "process_vm_readv": Rule(310, 270),
    "process_vm_writev": Rule(311, 271),
    "kcmp": Rule(312, 272),
    "pidfd_getfd": Rule(438, 438),
    "process_madvise": Rule(440, 440),
    "process_mrelease": Rule(448, 448),
    "perf_event_open": Rule(298, 241),
    "bpf": Rule(321, 280),
    "fanotify_init": Rule(300, 262),  # opens what others open
    "inotify_init": Rule(253, None),  # a user may have 128, and no other program could watch a file
    "inotify_init1": Rule(294, 26),
    "inotify_add_watch": Rule(254, 27),  # tells what others do in a folder, even in one that it cannot list
    "userfaultfd": Rule(323, 282),
    "io_uring_setup": Rule(425, 425),  # makes system calls that no filter sees
    "io_uring_enter": Rule(426, 426),
    "io_uring_register": Rule(427, 427),
    "add_key": Rule(248, 217),
    "request_key": Rule(249, 218),
    "keyctl": Rule(250, 219),
    # System V's memory, semaphores and messages: each user's are open to all of the user's processes.
    "shmget": Rule(29, 194),
    "shmat": Rule(30, 196),
    "shmctl": Rule(31, 195),
    "semget": Rule(64, 190),
    "semop": Rule(65, 193),
    "semctl": Rule(66, 191),
    "semtimedop": Rule(220, 192),
    "msgget": Rule(68, 186),
    "msgsnd": Rule(69, 189),
    "msgrcv": Rule(70, 188),
    "msgctl": Rule(71, 187),
    "mq_open": Rule(240, 180),
    "mq_unlink": Rule(241, 181),
}
_ADMINISTERS = {
    "setns": Rule(308, 268),
    "mount": Rule(165, 40),
    "umount2": Rule(166, 39),
    "pivot_root": Rule(155, 41),
    "chroot": Rule(161, 51),
    "open_tree": Rule(428, 428),
    "move_mount": Rule(429, 429),
    "fsopen": Rule(430, 430),
    "fsconfig": Rule(431, 431),
    "fsmount": Rule(432, 432),
    "fspick": Rule(433, 433),
    "mount_setattr": Rule(442, 442),
    "open_by_handle_at": Rule(304, 265),
    "swapon": Rule(167, 224),
    "swapoff": Rule(168, 225),
    "quotactl": Rule(179, 60),
    "quotactl_fd": Rule(443, 443),
    "acct": Rule(163, 89),
    "reboot": Rule(169, 142),
    "sethostname": Rule(170, 161),
    "setdomainname": Rule(171, 162),
    "init_module": Rule(175, 105),
    "finit_module": Rule(313, 273),
    "delete_module": Rule(176, 106),
    "kexec_load": Rule(246, 104),
    "kexec_file_load": Rule(320, 294),
    "syslog": Rule(103, 116),
}
