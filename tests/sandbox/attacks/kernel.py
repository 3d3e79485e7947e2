"""Attacks that try to see what is outside of the box, and attacks on the kernel's interfaces."""
# ruff: noqa: E501 - the code of an attack reads best on one line

from pathlib import Path

from nekro_core.sandbox.jail.defences import JailDefences
from tests.sandbox.attacks.attack import Attack, Without, guest
from tests.sandbox.attacks.egress import NO_FILTER

_TIOCSTI = Path("/proc/sys/dev/tty/legacy_tiocsti")


def terminals_can_be_fed() -> bool:
    """Return True if this kernel has TIOCSTI. Kernels from 6.2 on may not have it."""
    return not _TIOCSTI.exists() or _TIOCSTI.read_text().strip() == "1"


ATTACKS = [
    Attack(
        number=28,
        name="looking into other processes",
        act=guest(
            """
            assert os.getppid() == 1
            for name in ("environ", "maps", "mem", "fd", "root", "cwd", "exe"):
                path = f"/proc/1/{name}"
                fails(lambda: os.readlink(path) if name in ("root", "cwd", "exe")
                    else os.listdir(path) if name == "fd" else open(path, "rb").read(10) or "empty")
            text = open("/proc/1/cmdline").read()
            holds("nekro" not in text and "tmp" not in text, text)
            pids = [name for name in os.listdir("/proc") if name.isdigit()]
            holds(len(pids) <= 3, pids)
            """,
            9,
        ),
        because="the test cannot switch the process namespace off: kill(-1) would reach the host",
        spoils=True,  # In a shared box, processes of other attacks may run.
    ),
    Attack(
        number=28,
        name="the kernel's own files",
        act=guest(
            """
            for name in ("kcore", "kallsyms", "keys", "sched_debug", "timer_list", "kmsg", "modules", "iomem"):
                try:
                    holds(not open(f"/proc/{name}", "rb").read(100), name)
                except OSError:
                    print("held")
            """,
            8,
        ),
        without=Without(defences=JailDefences(proc_covered=False)),
        backends=frozenset({"jail"}),  # an engine hides only some of these files
    ),
    Attack(
        number=29,
        name="the kernel's settings",
        act=guest(
            """
            for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
                         "/sys/kernel/uevent_helper", "/proc/sys/vm/overcommit_memory", "/sys/fs/cgroup/release_agent"):
                fails(lambda: os.close(os.open(path, os.O_WRONLY)))
            """,
            6,
        ),
        without=Without(
            defences=JailDefences(proc_covered=False, own_user=False), hosts=frozenset({"root"})
        ),
    ),
    Attack(
        number=29,
        name="protecting itself from the out-of-memory killer",
        act=guest(
            'fails(lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))'
        ),
        because="needs a privilege of the host, which no box has with any defence off",
    ),
    Attack(
        number=30,
        name="secrets in the environment",
        act=guest(
            """
            holds(not any("CANARY" in name for name in os.environ), os.environ)
            # The run is not dumpable, so it cannot read this file of its own process. A program can.
            read = subprocess.run(["cat", "/proc/self/environ"], capture_output=True, text=True)
            holds(read.stdout and "CANARY" not in read.stdout, "a secret")
            """,
            2,
        ),
        without=Without(defences=JailDefences(clean_start=False)),
    ),
    Attack(
        number=30,
        name="inherited descriptors",
        act=guest(
            """
            known = {"0", "1", "2", "3"}
            found = os.listdir("/proc/self/fd")
            holds(len(set(found) - known) <= 1, found)
            """
        ),
        because="Python's subprocess closes them, and then the supervisor closes them again",
    ),
    Attack(
        number=31,
        name="tracing the supervisor",
        act=guest(
            """
            parent = os.getppid()
            fails(lambda: call(101 if x86 else 117, 16, parent, 0, 0), errno.EPERM)
            fails(lambda: call(310 if x86 else 270, parent, 0, 0, 0, 0, 0), errno.EPERM)
            fails(lambda: call(438, os.pidfd_open(parent), 0, 0), errno.EPERM)
            """,
            3,
        ),
        because="the supervisor is not dumpable, so a second defence holds; the next attack traces a dumpable process",
    ),
    Attack(
        number=31,
        name="tracing a sibling",
        act=guest(
            """
            child = subprocess.Popen(["sleep", "30"]).pid
            time.sleep(0.1)  # a program, unlike a fork of the run, is dumpable
            fails(lambda: call(101 if x86 else 117, 16, child, 0, 0), errno.EPERM)
            """
        ),
        without=NO_FILTER,
    ),
    Attack(
        number=32,
        name="namespaces",
        act=guest(
            """
            for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000):
                fails(lambda: call(272 if x86 else 97, flag), errno.EPERM)
            for flag in (0x20000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000):
                fails(lambda: call(56 if x86 else 220, flag | 17, 0, 0, 0, 0), errno.EPERM)
            fails(lambda: call(435, 0, 0), errno.ENOSYS, errno.EPERM)
            fails(lambda: call(308 if x86 else 268, 0, 0), errno.EPERM)
            print(subprocess.run(["/bin/echo", "held"], capture_output=True, text=True).stdout, end="")
            thread = threading.Thread(target=print, args=("held",))
            thread.start()
            thread.join()
            """,
            17,
        ),
        without=NO_FILTER,
    ),
    Attack(
        number=33,
        name="privileges from a setuid file",
        act=guest(
            """
            import shutil
            shutil.copy("/bin/sh", "sh")
            os.chmod("sh", 0o6755)
            shown = subprocess.run(["./sh", "-c", "id -u; grep -E 'Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs' /proc/self/status"],
                capture_output=True, text=True).stdout.split()
            holds(shown[0] == str(os.getuid()) != "0", shown)
            holds(set(shown[2:-1:2]) == {"0" * 16} and shown[-1] == "1", shown)
            fails(lambda: os.setuid(0))
            fails(lambda: os.setgroups([0]))
            """,
            4,
        ),
        without=Without(defences=JailDefences(no_capabilities=False)),
        spoils=True,
    ),
    Attack(
        number=34,
        name="no terminal",
        act=guest('fails(lambda: open("/dev/tty"))'),
        because="the box is started in a session of its own, without one",
    ),
    Attack(
        number=34,
        name="feeding a terminal",
        act=guest(
            """
            import fcntl
            if os.getsid(0) != os.getpid():
                os.setsid()
            master, slave = os.openpty()
            fcntl.ioctl(slave, 0x540E, 0)
            fails(lambda: fcntl.ioctl(slave, 0x5412, b"x"), errno.EPERM)
            """
        ),
        without=Without(defences=JailDefences(calls_filtered=False), possible=terminals_can_be_fed),
    ),
    Attack(
        number=35,
        name="devices",
        act=guest(
            """
            allowed = set("console core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero".split())
            holds(set(os.listdir("/dev")) <= allowed, os.listdir("/dev"))
            for name in ("kvm", "mem", "kmsg", "vda", "sda", "fuse", "net/tun"):
                fails(lambda: os.open("/dev/" + name, os.O_RDONLY))
            """,
            8,
        ),
        without=Without(defences=JailDefences(own_devices=False)),
    ),
    Attack(
        number=22,
        name="memory outside of processes (memfd, System V IPC)",
        act=guest(
            """
            fails(lambda: os.memfd_create("x"), errno.ENOSYS, errno.EPERM)
            for number in (29, 68, 64, 240) if x86 else (194, 186, 190, 180):
                fails(lambda: call(number, 0, 4096, 0o1600), errno.ENOSYS, errno.EPERM)
            """,
            5,
        ),
        without=NO_FILTER,
        backends=frozenset({"jail"}),  # for a container, its cgroup counts this memory
    ),
    Attack(
        number=0,
        name="system calls that known kernel exploits used",
        act=guest(
            """
            # perf_event_open, userfaultfd, io_uring_setup, bpf, keyctl, add_key, init_module, kexec_load
            numbers = (298, 323, 425, 321, 250, 248, 175, 246) if x86 else (241, 282, 425, 280, 219, 217, 105, 104)
            for number in numbers:
                fails(lambda: call(number, 0, 0, 0, 0, 0), errno.EPERM, errno.ENOSYS)
            """,
            8,
        ),
        without=NO_FILTER,
    ),
    Attack(
        number=0,
        name="system calls that the filter does not list",
        act=guest(
            """
            # io_setup, io_destroy, get_mempolicy, move_pages, io_pgetevents, cachestat, statmount, listmount
            numbers = (206, 207, 239, 279, 333, 451, 457, 458) if x86 else (0, 1, 236, 239, 292, 451, 457, 458)
            room = ctypes.create_string_buffer(512)
            for number in (*numbers, *range(470, 600)):
                fails(lambda: call(number, 1, room, room, room, room, 0), errno.EPERM, errno.ENOSYS)
            """,
            138,
        ),
        without=NO_FILTER,
    ),
    Attack(
        number=0,
        name="x32 system calls",
        act=guest(
            """
            child = os.fork()
            if child == 0:
                try:
                    libc.syscall(0x40000000 | 39)  # getpid as x32 has it
                finally:
                    os._exit(7)
            _, status = os.waitpid(child, 0)
            holds(os.WIFSIGNALED(status), status)
            """
        )
        if Path("/lib64/ld-linux-x86-64.so.2").exists()
        else guest("print('held')"),
        without=NO_FILTER,
        backends=frozenset({"jail"}),  # an engine's filter only makes the call fail
    ),
]
