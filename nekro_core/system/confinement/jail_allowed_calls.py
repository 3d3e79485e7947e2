"""Lists the system calls that boxes may make.

Each entry has the name of a call, its number on x86_64 and its number on aarch64. A "-" in place of
a number means that the kernel never had this call on that processor.

The names come from the default profile of Docker's engine (moby, ``profiles/seccomp``). Programs of
every kind work with that profile. This module leaves out these calls of the profile:

- calls that the profile allows only with a capability, and calls that read or change other
  processes (``ptrace``);
- calls that make memory that exists even if no process maps it, so that no limit of a box counts
  it: ``memfd_create``, System V memory, semaphores and queues, POSIX queues;
- calls through which kernels have been attacked: ``io_uring``, ``userfaultfd``,
  ``name_to_handle_at``;
- the old asynchronous reads (``io_setup``), because all users of a machine together may have only
  65,536 of them;
- ``clone3``, because a filter cannot read its flags.

Six more calls are allowed only with certain arguments (see
`nekro_core.system.confinement.jail_filter`). If the kernel's headers are installed, a test compares
the numbers in this file with the headers.
"""

from nekro_core.system.confinement.bpf import MACHINES

_ALLOWED = (
    # Files by descriptor.
    "read 0 63, write 1 64, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, "
    "preadv 295 69, pwritev 296 70, preadv2 327 286, pwritev2 328 287, close 3 57, "
    "close_range 436 436, lseek 8 62, fstat 5 80, fcntl 72 25, flock 73 32, dup 32 23, "
    "dup2 33 -, dup3 292 24, "
    # Files by path.
    "open 2 -, openat 257 56, openat2 437 437, creat 85 -, stat 4 -, lstat 6 -, "
    "newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439, "
    "readlink 89 -, readlinkat 267 78, getdents 78 -, getdents64 217 61, getcwd 79 17, "
    "chdir 80 49, fchdir 81 50, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, "
    "unlinkat 263 35, rename 82 -, renameat 264 38, renameat2 316 276, link 86 -, "
    "linkat 265 37, symlink 88 -, symlinkat 266 36, mknodat 259 33, chmod 90 -, "
    "fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55, "
    "lchown 94 -, fchownat 260 54, umask 95 166, truncate 76 45, ftruncate 77 46, "
    "utime 132 -, utimes 235 -, utimensat 280 88, futimesat 261 -, statfs 137 43, "
    "fstatfs 138 44, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, "
    "llistxattr 195 12, flistxattr 196 13, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, "
    "removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, "
    # Flushing files to a disk, reserving space, reading ahead, copying.
    "fsync 74 82, fdatasync 75 83, sync 162 81, syncfs 306 267, sync_file_range 277 84, "
    "fallocate 285 47, fadvise64 221 223, readahead 187 213, copy_file_range 326 285, "
    "sendfile 40 71, splice 275 76, tee 276 77, vmsplice 278 75, "
    # Memory.
    "mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, madvise 28 233, brk 12 214, "
    "msync 26 227, mincore 27 232, mlock 149 228, mlock2 325 284, mlockall 151 230, "
    "munlock 150 229, munlockall 152 231, membarrier 324 283, pkey_mprotect 329 288, "
    "pkey_alloc 330 289, pkey_free 331 290, remap_file_pages 216 234, "
    "map_shadow_stack 453 453, mseal 462 462, "
    # Processes and threads.
    "fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, exit 60 93, exit_group 231 94, "
    "wait4 61 260, waitid 247 95, getpid 39 172, getppid 110 173, gettid 186 178, "
    "getpgid 121 155, getpgrp 111 -, setpgid 109 154, getsid 124 156, setsid 112 157, "
    "prctl 157 167, arch_prctl 158 -, set_tid_address 218 96, futex 202 98, "
    "futex_waitv 449 449, set_robust_list 273 99, get_robust_list 274 100, rseq 334 293, "
    "pidfd_open 434 434, pidfd_send_signal 424 424, process_mrelease 448 448, "
    "restart_syscall 219 128, "
    # User ids, group ids and capabilities. A box gains no rights by these calls.
    "getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getresuid 118 148, "
    "getresgid 120 150, getgroups 115 158, setuid 105 146, setgid 106 144, setreuid 113 145, "
    "setregid 114 143, setresuid 117 147, setresgid 119 149, setfsuid 122 151, "
    "setfsgid 123 152, setgroups 116 159, capget 125 90, capset 126 91, "
    # Signals.
    "rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, "
    "rt_sigsuspend 130 133, rt_sigtimedwait 128 137, rt_sigqueueinfo 129 138, "
    "rt_tgsigqueueinfo 297 240, sigaltstack 131 132, kill 62 129, tkill 200 130, "
    "tgkill 234 131, pause 34 -, signalfd 282 -, signalfd4 289 74, "
    # Time.
    "time 201 -, gettimeofday 96 169, clock_gettime 228 113, clock_getres 229 114, "
    "clock_nanosleep 230 115, nanosleep 35 101, alarm 37 -, getitimer 36 102, "
    "setitimer 38 103, timer_create 222 107, timer_settime 223 110, timer_gettime 224 108, "
    "timer_getoverrun 225 109, timer_delete 226 111, timerfd_create 283 85, "
    "timerfd_settime 286 86, timerfd_gettime 287 87, times 100 153, "
    # Waiting for several descriptors; event descriptors and pipes.
    "poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -, "
    "epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, "
    "epoll_pwait2 441 441, eventfd 284 -, eventfd2 290 19, pipe 22 -, pipe2 293 59, "
    # Sockets. `jail_filter` has the calls that make sockets, and allows only some families.
    "bind 49 200, connect 42 203, listen 50 201, accept 43 202, accept4 288 242, "
    "getsockname 51 204, getpeername 52 205, getsockopt 55 209, setsockopt 54 208, "
    "shutdown 48 210, sendto 44 206, recvfrom 45 207, sendmsg 46 211, recvmsg 47 212, "
    "sendmmsg 307 269, recvmmsg 299 243, "
    # Limits, priorities and scheduling.
    "getrlimit 97 163, setrlimit 160 164, getrusage 98 165, getpriority 140 141, "
    "setpriority 141 140, ioprio_get 252 31, ioprio_set 251 30, sched_yield 24 124, "
    "sched_getaffinity 204 123, sched_setaffinity 203 122, sched_getparam 143 121, "
    "sched_setparam 142 118, sched_getscheduler 145 120, sched_setscheduler 144 119, "
    "sched_get_priority_max 146 125, sched_get_priority_min 147 126, "
    "sched_rr_get_interval 148 127, sched_getattr 315 275, sched_setattr 314 274, "
    "getcpu 309 168, "
    # Facts about the machine, and random bytes.
    "uname 63 160, sysinfo 99 179, getrandom 318 278, "
    # Calls by which a process restricts itself.
    "seccomp 317 277, landlock_create_ruleset 444 444, landlock_add_rule 445 445, "
    "landlock_restrict_self 446 446, "
)

_WATCHES = (
    "inotify_init 253 -, inotify_init1 294 26, inotify_add_watch 254 27, inotify_rm_watch 255 28, "
)
"""The calls of inotify. The kernel allows each user id only 128 inotify instances at once. So boxes
may use inotify only if each box has its own user id. Otherwise they could use all instances of the
bot's user."""


def allowed_numbers(machine: str, *, watches: bool) -> frozenset[int]:
    """Return the numbers of the allowed calls for a processor. ``watches`` adds the calls of
    inotify."""
    column = 1 + MACHINES.index(machine)
    return frozenset(int(row[column]) for row in _rows(watches=watches) if row[column] != "-")


def allowed_names(*, watches: bool) -> frozenset[str]:
    """Return the names of the allowed calls of all processors. ``watches`` adds the calls of
    inotify."""
    return frozenset(row[0] for row in _rows(watches=watches))


def _rows(*, watches: bool) -> list[list[str]]:
    text = _ALLOWED + _WATCHES if watches else _ALLOWED
    return [row.split() for row in text.split(", ") if row]
