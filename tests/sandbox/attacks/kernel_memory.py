"""Attacks with memory that no process has mapped: data in sockets and pipes, and pages given to
them."""
# ruff: noqa: E501 - the code of an attack reads best on one line

import textwrap
from collections.abc import Awaitable, Callable

import anyio

from nekro_core.sandbox.box import Answer, BoxLost, CallReturn, GuestCall, RunLimits, StopReason
from nekro_core.sandbox.jail.defences import JailDefences
from nekro_core.sandbox.memory_limit import LOOK_S
from tests.sandbox.attacks.attack import PRELUDE, Attack, GotThrough, Ground, Without, guest
from tests.sandbox.attacks.resources import NO_LIMITS
from tests.sandbox.run_code import Tools

MEMORY, DIED, ERROR = StopReason.OUT_OF_MEMORY, StopReason.DIED, StopReason.ERROR

FILL = """
import mmap, struct
sent = mmap.mmap(-1, 4096)

def wide(sock):
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        try: sock.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
        except OSError: pass
    return sock

def pour(sock, slot, tries=1):
    sock.setblocking(False)
    while tries:
        try:
            count = sock.send(b"x" * 65536)
            before, = struct.unpack_from("Q", sent, slot * 8)
            struct.pack_into("Q", sent, slot * 8, before + count)
        except BlockingIOError:
            tries -= 1
            if tries: time.sleep(0.001)

def in_processes(fill):
    for slot in range(12):
        if os.fork() == 0:
            try:
                while sum(struct.unpack_from("12Q", sent)) <= 400 * 1024**2: fill(slot)
                time.sleep(30)
            except OSError: time.sleep(30)
            finally: os._exit(0)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        time.sleep(0.02)
        if sum(struct.unpack_from("12Q", sent)) > 400 * 1024**2:
            host_looks()  # between two looks of a watchdog much is possible, but it does not last
            print("NOT HELD: 400 MB")
            return
kept = []
"""
"""``host_looks`` waits until the watchdog has measured the box several times."""

SLEEPS = "def host_looks(): time.sleep(0.5)\n"

STREAMS = """
def fill(slot):
    one, other = socket.socketpair()
    kept.append((one, other))
    pour(wide(one), slot)
in_processes(fill)
"""

TCP = """
def fill(slot):
    listener = wide(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    one = wide(socket.socket())
    one.connect(listener.getsockname())
    other, _ = listener.accept()
    kept.append((one, other))
    pour(one, slot, tries=5)
in_processes(fill)
"""

DATAGRAMS = """
def fill(slot):
    taker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    taker.bind(b"\\0%d %d" % (slot, len(kept)))
    kept.append(taker)
    for _ in range(11):
        giver = wide(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        giver.connect(taker.getsockname())
        pour(giver, slot)
in_processes(fill)
"""

IN_FLIGHT = """
holders = []
def fill(slot):
    if len(kept) % 8 == 0:
        holders.append(socket.socketpair())
    one, other = socket.socketpair()
    pour(wide(one), slot)
    while True:
        try:
            socket.send_fds(holders[-1][0], [b"x"], [one.fileno(), other.fileno()])
            break
        except OSError as error:  # the kernel may still count those of a box that is gone
            if error.errno != errno.ETOOMANYREFS: raise
            time.sleep(0.01)
    kept.append(slot)
in_processes(fill)
"""


def _fills(code: str) -> Callable[[Ground], Awaitable[GotThrough]]:
    """An attack by code that fills kernel memory. The code must be stopped or fail before it
    reports success."""

    async def host_looks(_call: GuestCall) -> Answer:
        # The watchdog runs in the same event loop, so a busy machine delays both.
        for _ in range(5):
            await anyio.sleep(LOOK_S)
        return CallReturn(None)

    async def act(ground: Ground) -> GotThrough:
        tools = Tools({"host_looks": host_looks})
        result = await ground.play(PRELUDE + code, RunLimits(seconds=30), tools)
        stops = (MEMORY, DIED, ERROR, StopReason.FINISHED)
        if result is not None and result.stop in stops and "NOT HELD" not in result.output:
            return []
        return [f"{result}"[:300]]

    return act


def _row(name: str, code: str, *, alone: bool = False) -> Attack:
    return Attack(
        number=22,
        name=name,
        act=_fills(FILL + code),
        without=NO_LIMITS,
        spoils=True,
        alone=alone,
    )


async def by_commands(ground: Ground) -> GotThrough:
    """A command and a process that it has left behind fill kernel memory. No run is active that the
    watchdog could end."""
    code = textwrap.dedent(PRELUDE + SLEEPS + FILL + STREAMS)
    await ground.box.write_file("fill.py", code.encode())
    try:
        done = await ground.box.execute("python3 fill.py", timeout_s=20)
        await ground.box.execute("python3 fill.py >left 2>&1 & sleep 2", timeout_s=20)
        left = await ground.box.execute("cat left", timeout_s=20)
    except BoxLost as lost:
        return [str(lost)]
    return [line for line in (done.stdout.text + left.stdout.text).splitlines() if "NOT" in line]


ATTACKS = [
    _row("400 MB in sockets", STREAMS),
    _row("400 MB in connections", TCP),
    _row("400 MB from senders that have ended", DATAGRAMS),
    _row("400 MB in sockets that nobody has open", IN_FLIGHT, alone=True),
    Attack(
        number=22,
        name="400 MB in sockets of commands",
        act=by_commands,
        without=NO_LIMITS,
        spoils=True,
    ),
    Attack(
        number=22,
        name="pages lent to pipes and sockets",
        act=guest(
            """
            one, other = socket.socketpair()
            read, write = os.pipe()
            file = open("/tmp/pages", "wb+")
            file.write(b"x" * 65536)
            file.flush()
            number = file.fileno()
            fails(lambda: os.sendfile(one.fileno(), number, 0, 1), errno.EINVAL)
            fails(lambda: call(275 if x86 else 76, number, ctypes.byref(ctypes.c_long(0)), write, 0, 1, 0), errno.EINVAL)
            fails(lambda: call(278 if x86 else 75, write, (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(9)), 9), 1, 0), errno.EINVAL)
            fails(lambda: call(276 if x86 else 77, read, write, 1, 0), errno.EINVAL)
            import shutil
            shutil.copyfile("/tmp/pages", "/tmp/copy")
            holds(os.path.getsize("/tmp/copy") == 65536)
            """,
            5,
        ),
        without=Without(defences=JailDefences(limits=False)),
    ),
]
