"""Attacks that take all processes, memory, processor time or output, or that refuse to end."""
# ruff: noqa: E501 - the code of an attack reads best on one line

import ctypes
import os
import subprocess
import textwrap
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from nekro_core.sandbox.box import BoxLost, GuestCall, RunLimits, StopReason
from nekro_core.sandbox.jail.defences import JailDefences
from tests.sandbox.attacks.attack import (
    PRELUDE,
    Attack,
    GotThrough,
    Ground,
    Without,
    bomb,
    guest,
    judge,
)
from tests.sandbox.run_code import Tools

TIMEOUT, MEMORY = StopReason.TIMEOUT, StopReason.OUT_OF_MEMORY
DIED, ERROR = StopReason.DIED, StopReason.ERROR
NO_LIMITS = Without(defences=JailDefences(limits=False))
NO_TIME_LIMIT = Without(limits=(("seconds", 3600.0),))
BOUNDED_ROW = "its success would hurt the machine; a bounded attack tries the same defence"
ONLY_ITSELF = "it hurts only its own run: there is no defence to switch off"

FORKS = """
children = []
try:
    while len(children) < 40:
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        children.append(pid)
    print("NOT HELD: 40 processes")
except BlockingIOError:
    print("held")
"""

MANY = """
def grow():
    kept = bytearray(100 * 1024**2)
    for place in range(0, len(kept), 4096):
        kept[place] = 1
    time.sleep(0.5)
for _ in range(4):
    if os.fork() == 0:
        try:
            grow()
        finally:
            os._exit(0)
for _ in range(4):
    os.wait()
print("NOT HELD: 400 MB")
"""

SHARED = """
import mmap
kept = []
for _ in range(40):
    kept.append(mmap.mmap(-1, 10 * 1024**2))
    kept[-1].write(b"x" * 10 * 1024**2)
time.sleep(0.5)
print("NOT HELD: 400 MB")
"""


def ends(code: str, *stops: StopReason) -> Callable[[Ground], Awaitable[GotThrough]]:
    """An attack by code that ends by itself, but must be stopped before it reports success."""

    async def act(ground: Ground) -> GotThrough:
        # The limit is high, because the kernel of a busy machine is slow to notice that memory is
        # used up.
        result = await ground.play(PRELUDE + code, RunLimits(seconds=30))
        if result is not None and result.stop in stops and "NOT HELD" not in result.output:
            return []
        return [f"{result}"[:300]]

    return act


async def bomb_beside_others(ground: Ground) -> GotThrough:
    """While one box forks endlessly, the host can still fork and another box answers."""
    other = await ground.another_box()
    got: GotThrough = []

    async def explode() -> None:
        code = "while True:\n    try: os.fork()\n    except OSError: pass"
        got.extend(await bomb(code, TIMEOUT, MEMORY, seconds=0.9)(ground))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(explode)
        await anyio.sleep(0.5)
        await anyio.to_thread.run_sync(lambda: subprocess.run(["true"], check=True, timeout=10))
        answer = await ground.play(
            "import os\nif not os.fork(): os._exit(0)\nprint('here')", box=other, patience=10
        )
        if answer is None or answer.output != "here\n":
            got.append(f"the other box: {answer}")
    return got


async def hogs(ground: Ground) -> GotThrough:
    """While two boxes have more busy processes than the machine has processors, a third answers."""
    third = await ground.another_box()
    second = await ground.another_box()
    hog = "for _ in range(4): os.fork()\nwhile True: pass"
    async with anyio.create_task_group() as tasks:
        for box in (ground.box, second):
            tasks.start_soon(ground.play, PRELUDE + hog, RunLimits(seconds=1.5), None, box)
        await anyio.sleep(0.5)
        answer = await ground.play("print(sum(range(10**5)))", box=third, patience=10)
    return [] if answer and answer.output else [f"{answer}"]


async def daemon(ground: Ground) -> GotThrough:
    """A daemon does not delay the result, and is ended with the run."""
    code = """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.close(3)
                time.sleep(60)
            os._exit(0)
        print("held")
    """
    got = judge(await ground.play(PRELUDE + textwrap.dedent(code), patience=5), 1)
    look = "left = [n for n in os.listdir('/proc') if n.isdigit()]\nholds(len(left) <= 3, left)"
    after: GotThrough = []
    for _ in range(20):
        after = judge(await ground.play(PRELUDE + look), 1)
        if not after:
            break
        await anyio.sleep(0.05)
    return got + after


async def flood(ground: Ground) -> GotThrough:
    limits = RunLimits(seconds=10, output_bytes=64 * 1024)
    result = await ground.play("print('x' * 1024 * 1024)", limits)
    held = (
        result
        and result.stop is StopReason.FINISHED
        and result.output_truncated
        and len(result.output) <= limits.output_bytes
    )
    return [] if held else [f"{len(result.output) if result else 0} bytes were kept"]


MAKES_FILES = """
import itertools, os, time
for _ in range(3): os.fork()
for turn in itertools.count():
    for root in ("/home/user", "/tmp", "/dev/shm"):
        folder = f"{root}/{os.getpid()}_{turn}"
        os.mkdir(folder)
        for n in range(2000): os.mknod(f"{folder}/{n}")
"""


async def files_of_commands(ground: Ground) -> GotThrough:
    """A command and a process that it leaves behind make files. No run is active at whose end the
    files would be deleted."""
    count = "import os\nprint(sum(len(f) for r in ('/home/user', '/tmp', '/dev/shm') for _, _, f in os.walk(r)))"
    try:
        await ground.box.write_file("makes.py", MAKES_FILES.encode())
        await ground.box.execute("python3 makes.py 2>/dev/null & sleep 2", timeout_s=5)
        await ground.box.execute("python3 makes.py 2>/dev/null", timeout_s=5)
        left = await ground.box.execute(["python3", "-c", count], timeout_s=20)
    except BoxLost as lost:
        return [] if "files" in str(lost) else [str(lost)]
    few = left.stdout.text.strip().isdigit() and int(left.stdout.text) <= 100_000
    return [] if few else [f"{left.stdout.text} files are left"]


async def any_bytes(ground: Ground) -> GotThrough:
    """Output of any bytes becomes text that can be encoded."""
    code = "os.write(1, bytes(range(256)) + b'\\xed\\xa0\\x80\\xef\\xbb\\xbf\\x1b]0;t\\x07')"
    result = await ground.play(PRELUDE + code)
    assert result is not None
    result.output.encode()
    surrogate = await ground.play("print('\\ud800')")
    assert surrogate is not None
    (surrogate.output + surrogate.error).encode()
    return [] if result.stop is StopReason.FINISHED else [f"{result}"]


async def labelled(ground: Ground) -> GotThrough:
    """The error of a run names the way in which it died, and the next run works."""
    got = []
    for code, words in (
        ("ctypes.string_at(0)", "SIGSEGV"),
        ("os.abort()", "SIGABRT"),
        ("os._exit(3)", "exit code 3"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("os.killpg(0, 9)", "SIGKILL"),
    ):
        result = await ground.play(PRELUDE + code)
        if result is None or result.stop is not DIED or words not in result.error:
            got.append(f"{code}: {result}")
    after = await ground.play("print('next')")
    return got if after and after.output == "next\n" else [*got, f"the next run: {after}"]


async def broken_interpreter(ground: Ground) -> GotThrough:
    code = """
        import builtins, json, sys
        sys.modules["guest_wire"].BlockingChannel.send = None
        json.dumps = json.loads = builtins.exec = builtins.compile = sys.exit = None
        sys.stdout = None
        sys.modules["guest_tools"].RunConnection.call = None
    """
    result = await ground.play(code)
    got = [] if result and result.stop in (DIED, ERROR) else [f"{result}"]
    after = await ground.play("print('next')")
    return got if after and after.output == "next\n" else [*got, f"the next run: {after}"]


def _bombs() -> list[Attack]:
    rows = (
        (15, "fork bomb of daemons", "while True:\n    try:\n        if not os.fork(): os.setsid()\n    except OSError: pass", {TIMEOUT, MEMORY}),
        (22, "threads without end", "while True:\n    try: threading.Thread(target=time.sleep, args=(99,)).start()\n    except RuntimeError: pass", {TIMEOUT, MEMORY}),
        (22, "pipes without end", "kept = []\nwhile True:\n    try: kept.append(os.pipe())\n    except OSError: pass", {TIMEOUT}),
        (13, "a million files", "for n in range(10**7): os.mknod(f'{n}')", {MEMORY, TIMEOUT, ERROR}),
        (25, "a flood of output", "while True: os.write(1, b'x' * 65536)", {TIMEOUT}),
        (25, "one line of a gigabyte", "while True: sys.stdout.write('x' * 10**6)", {TIMEOUT, MEMORY}),
        (25, "a flood of output and errors", "threading.Thread(target=lambda: [sys.stderr.write('y' * 9999) for _ in iter(int, 1)]).start()\nwhile True: print('x' * 9999)", {TIMEOUT}),
    )  # fmt: skip
    return [
        Attack(number=number, name=name, act=bomb(code, *stops), because=BOUNDED_ROW, spoils=True)
        for number, name, code, stops in rows
    ]


def _endless() -> list[Attack]:
    ignored = (
        "for n in set(signal.Signals) - {9, 19}:\n    signal.signal(n, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\ntime.sleep(99)"
    )
    rows = (
        (18, "an endless loop", "while True: pass"),
        (19, "a run that ignores all signals", ignored),
        (19, "a run that stops itself", "os.kill(os.getpid(), signal.SIGSTOP)"),
        (19, "a run that is not dumpable", "libc.prctl(4, 0, 0, 0, 0)\ntime.sleep(99)"),
        (
            23,
            "a regular expression that takes forever",
            "import re\nre.match('(a+)+$', 'a' * 99 + 'b')",
        ),
    )
    return [
        Attack(
            number=number, name=name, act=bomb(code, TIMEOUT), without=NO_TIME_LIMIT, spoils=True
        )
        for number, name, code in rows
    ]


WATCHES = """
taken = []
try:
    while len(taken) < 500:
        taken.append(call(294 if x86 else 26, 0))
except OSError:
    pass
holds(host_has_one(), f"{len(taken)} were taken, and none was left")
"""


async def all_watches(ground: Ground) -> GotThrough:
    """The kernel counts inotify instances for each user, in all namespaces together."""
    library = ctypes.CDLL(None, use_errno=True)

    def has_one(call: GuestCall) -> bool:
        del call
        descriptor: int = library.inotify_init1(0)
        if descriptor >= 0:
            os.close(descriptor)
        return descriptor >= 0

    tools = Tools({"host_has_one": has_one})
    return judge(await ground.play(PRELUDE + WATCHES, tools=tools), 1)


ATTACKS = [
    Attack(
        number=13,
        name="files of commands without end",
        act=files_of_commands,
        because=BOUNDED_ROW,
        spoils=True,
    ),
    Attack(number=15, name="fork bomb", act=bomb_beside_others, because=BOUNDED_ROW, spoils=True),
    Attack(number=15, name="40 processes", act=guest(FORKS), without=NO_LIMITS, spoils=True),
    Attack(
        number=16,
        name="40 processes, bounded by the user id alone",
        act=guest(FORKS),
        without=Without(
            defences=JailDefences(own_user=False, group=False), hosts=frozenset({"root"})
        ),
        spoils=True,
    ),
    Attack(
        number=17,
        name="300 MB in one process",
        act=ends("kept = bytearray(300 * 1024**2)\nprint('NOT HELD: 300 MB')", MEMORY, ERROR),
        without=NO_LIMITS,
        spoils=True,
    ),
    Attack(
        number=17,
        name="400 MB in four processes",
        act=ends(MANY, MEMORY, DIED),
        without=NO_LIMITS,
        spoils=True,
    ),
    Attack(
        number=17,
        name="400 MB shared",
        act=ends(SHARED, MEMORY, ERROR),
        without=NO_LIMITS,
        spoils=True,
    ),
    Attack(
        number=17,
        name="memory without end, in pieces",
        act=ends("x = []\nwhile True: x.append(bytearray(10**6))", MEMORY),
        because=BOUNDED_ROW,
        spoils=True,
    ),
    Attack(
        number=17,
        name="100 GB of memory at once",
        act=bomb("bytearray(10**11)", MEMORY, ERROR, seconds=8),
        because=BOUNDED_ROW,
        spoils=True,
    ),
    *_endless(),
    *_bombs(),
    Attack(
        number=20,
        name="a daemon",
        act=daemon,
        because="the supervisor kills it, and the test cannot switch this off",
        spoils=True,
    ),
    Attack(
        number=21,
        name="processor hogs",
        act=hogs,
        because="its success is a matter of degree: boxes share the processors",
        spoils=True,
    ),
    Attack(
        number=22,
        name="raising the limits",
        act=guest(
            """
            for name in ("RLIMIT_NPROC", "RLIMIT_DATA", "RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_CORE"):
                try:
                    resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY,) * 2)
                    print("NOT HELD:", name)
                except (ValueError, OSError):
                    print("held")
            """,
            5,
        ),
        because="needs a privilege of the host, which no box has with any defence off",
    ),
    Attack(
        number=22,
        name="taking all descriptors",
        act=guest(
            """
            kept = []
            fails(lambda: [kept.append(os.open("/", os.O_RDONLY)) for _ in range(100000)], errno.EMFILE)
            """
        ),
        because="this limit is set by the supervisor; the attacks with many processes show that such limits hold",
        spoils=True,
    ),
    Attack(
        number=22,
        name="taking all inotify instances of a user",
        act=all_watches,
        # Without its defence, the attack succeeds only as an ordinary user: under root every box
        # has its own user id, and the kernel has a limit for each.
        without=Without(defences=JailDefences(calls_filtered=False), hosts=frozenset({"user"})),
        spoils=True,
        alone=True,
    ),
    Attack(
        number=23,
        name="computing a huge number",
        act=bomb("10 ** 10 ** 8", TIMEOUT, MEMORY),
        because=ONLY_ITSELF,
        spoils=True,
    ),
    Attack(
        number=23,
        name="recursion",
        act=bomb("sys.setrecursionlimit(10**9)\ndef f(): f()\nf()", DIED, ERROR, MEMORY, TIMEOUT),
        because=ONLY_ITSELF,
        spoils=True,
    ),
    Attack(
        number=23,
        name="nested json",
        act=bomb("import json\njson.loads('[' * 10**7)", ERROR, DIED, TIMEOUT),
        because=ONLY_ITSELF,
        spoils=True,
    ),
    Attack(number=24, name="different ways to die", act=labelled, because=ONLY_ITSELF, spoils=True),
    Attack(
        number=24,
        name="signals to the supervisor and to everyone",
        act=guest(
            """
            for number in set(signal.Signals):
                os.kill(1, number)
            fails(lambda: os.kill(-1, signal.SIGKILL), errno.ESRCH)  # there is nobody else
            call(424, os.pidfd_open(1), signal.SIGKILL, 0, 0)
            fails(lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)), errno.EPERM)
            """,
            2,
        ),
        because="process 1 of a namespace takes no signals from inside",
        spoils=True,
    ),
    Attack(
        number=25,
        name="a megabyte of output",
        act=flood,
        without=Without(limits=(("output_bytes", 64 * 1024 * 1024),)),
    ),
    Attack(number=26, name="output of any bytes", act=any_bytes, because=ONLY_ITSELF),
    Attack(
        number=27,
        name="a broken interpreter",
        act=broken_interpreter,
        because=ONLY_ITSELF,
        spoils=True,
    ),
]
