"""Attacks on the link between guest and host: the guest forges messages, and misuses the answers
that it gets."""
# ruff: noqa: E501 - the code of an attack reads best on one line

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from nekro_core.sandbox.box import BoxLost, RunLimits, StopReason
from tests.sandbox.attacks.attack import (
    PRELUDE,
    Attack,
    GotThrough,
    Ground,
    Without,
    guest,
    judge,
)
from tests.sandbox.run_code import Tools, play

PARSER = (
    "the host's parser refuses it; tests/sandbox/attacks/fuzz.py tests the parser without a box"
)

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

FORGED = (
    ("a pickle", 'raw(CALL, 1, b"\\x80\\x04\\x95.")'),
    ("not json", 'raw(CALL, 1, b"{{{")'),
    ("not utf-8", 'raw(CALL, 1, b\'["tool", ["\\xff"], {}]\')'),
    ("not a call", 'raw(CALL, 1, b\'{"name": "tool"}\')'),
    ("a call without a name", "raw(CALL, 1, b'[1, [], {}]')"),
    ("NaN in a call", "raw(CALL, 1, b'[\"tool\", [NaN], {}]')"),
    ("a number too large for a float", "raw(CALL, 1, b'[\"tool\", [1e999], {}]')"),
    ("a number of 100,000 digits", "raw(CALL, 1, b'[\"tool\", [' + b'9' * 100000 + b'], {}]')"),
    (
        "100,000 nested lists",
        "raw(CALL, 1, b'[\"tool\", ' + b'[' * 100000 + b']' * 100000 + b', {}]')",
    ),
    ("200 nested lists", "raw(CALL, 1, b'[\"tool\", ' + b'[' * 200 + b']' * 200 + b', {}]')"),
    ("an object with a key twice", 'raw(CALL, 1, b\'["tool", [], {"a": 1, "a": 2}]\')'),
    ("bytes beyond the end of the body", 'raw(CALL, 1, b\'["tool", [{"$b": [0, 9]}], {}]\', b"x")'),
    (
        "bytes before the start of the body",
        'raw(CALL, 1, b\'["tool", [{"$b": [-1, 1]}], {}]\', b"x")',
    ),
    ("an unknown mark in a value", 'raw(CALL, 1, b\'["tool", [{"$x": 1}], {}]\')'),
    ("a call number that is in use", "for _ in range(2): raw(CALL, 1, b'[\"slow\", [], {}]')"),
    ("a text too long", "raw(CALL, 1, text_length=2**31)"),
    ("a body too long", "raw(CALL, 1, body_length=2**32 - 1)"),
    ("an unknown kind of frame", "raw(99)"),
    ("a forged RESULT frame", 'raw(19, 0, b\'{"stop":"finished"}\')'),
    ("a forged FILE_DONE frame", "raw(20, 1, b'{}')"),
    ("a DONE frame with a body", 'raw(DONE, 1, b"1", b"x")'),
    ("an end that is not json", 'raw(END, 0, b"nonsense")'),
    (
        "an end with a reason that only the host gives",
        'raw(END, 0, b\'{"stop":"timeout","error":"x"}\')',
    ),
)
STRANGE_NAMES = ("__class__", "tool.__globals__", "_private", "other", "a.b.c", "tool\\u0000", "")


def forged(code: str) -> Callable[[Ground], Awaitable[GotThrough]]:
    """An attack with a forged message. The run must end with a protocol error, the message must call
    no tool, and the next run must work."""

    async def act(ground: Ground) -> GotThrough:
        async def forever(call: object) -> None:
            await anyio.sleep_forever()

        tools = Tools({"tool": None, "slow": forever})
        result = await ground.play(f"{FRAME}{code}\ntime.sleep(60)", tools=tools)
        got = []
        if result is None or result.stop is not StopReason.PROTOCOL_ERROR:
            got.append(f"{result}"[:300])
        if [call.name for call in tools.calls] not in ([], ["slow"]):
            got.append(f"called: {tools.calls}"[:300])
        after = await ground.play("print('next')")
        return got if after and after.output == "next\n" else [*got, f"the next run: {after}"]

    return act


async def strange_names(ground: Ground) -> GotThrough:
    got: GotThrough = []
    for name in STRANGE_NAMES:
        got += await forged(f"raw(CALL, 1, b'[\"{name}\", [], {{}}]')")(ground)
    return got


async def forged_acknowledgement(ground: Ground) -> GotThrough:
    """A run claims that it has executed its whole source, although the host has not said yet that
    the source is complete. The time limit must end it all the same."""
    seconds = 3600.0 if ground.without else 0.5
    run = await ground.box.start_run([], Tools().handle, RunLimits(seconds=seconds))
    await run.feed(f"{FRAME}raw(DONE, 1, b'1')\nwhile True: pass", 1)
    # The limit counts processor time: on a busy machine half a second of it takes many seconds.
    with anyio.move_on_after(1.5 if ground.without else 40):
        result = await run.wait()
        return [] if result.stop is StopReason.TIMEOUT else [f"{result}"]
    await run.cancel()
    return ["it went on"]


class Secretive:
    """An object of the host with a class attribute, a method and a lock, which must not reach the
    guest."""

    secret = "of the class"

    def __init__(self) -> None:
        self.name = "public"
        self.lock = threading.Lock()

    def act(self) -> str:
        return "an action of the host"


async def host_objects(ground: Ground) -> GotThrough:
    """The guest gets plain data or an error. It can neither call nor explore the host's objects."""
    answers: dict[str, Any] = {"locked": Secretive(), "itself": Secretive, "function": len}
    plain = Secretive()
    del plain.lock
    answers["plain"] = plain
    code = """
        try:
            print("NOT HELD:", locked())
        except Exception as error:
            holds(type(error).__name__ == "ToolError", error)
        found = plain()
        holds(found.name == "public")
        for action in ("secret", "act", "lock"):
            holds(not hasattr(found, action), action)
        holds("nekro_core" not in sys.modules and not any("pytest" in name for name in sys.modules))
    """
    result = await ground.play(f"{PRELUDE}\n{_dedent(code)}", tools=Tools(answers))
    return judge(result, 6)


def _dedent(code: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in code.splitlines())


async def too_many_calls(ground: Ground) -> GotThrough:
    tools = Tools({"tool": None})
    limits = RunLimits(seconds=10, calls=200)
    result = await ground.play("for _ in range(400): tool()", limits, tools)
    held = result and result.stop is StopReason.TOO_MANY_CALLS and len(tools.calls) <= 200
    return [] if held else [f"{len(tools.calls)} calls: {result}"[:300]]


async def many_at_once(ground: Ground) -> GotThrough:
    """Many calls at once, whose handlers use the same box and another one."""
    other = await ground.another_box()

    async def back(call: object) -> int:
        await other.write_file("note", b"from a handler")
        return len(await ground.box.read_file("/app/shared/mine", limit=10))

    tools = Tools({"back": back})
    code = """
open("mine", "w").write("abc")
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(12) as pool:
    holds(list(pool.map(lambda n: back(n), range(300))) == [3] * 300)
"""
    return judge(await ground.play(PRELUDE + code, tools=tools, patience=20), 1)


async def box_killed_during_a_call(ground: Ground) -> GotThrough:
    """If a box is killed during a call, the call's handler is cancelled, the waiting caller gets an
    error, and nothing hangs."""
    started, cancelled = anyio.Event(), anyio.Event()

    async def handler(call: object) -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    box = await ground.another_box()
    results = []

    async def run() -> None:
        results.append(await play(box, "tool()", tools=Tools({"tool": handler})))

    with anyio.move_on_after(10) as waited:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await started.wait()
            await box.destroy()
        await cancelled.wait()
        try:
            await box.read_file("x", limit=1)
            results.append("a dead box read")
        except BoxLost:
            pass
    if waited.cancelled_caught:
        return ["it hung"]
    return [] if [result.stop for result in results] == [StopReason.DIED] else [f"{results}"]


ATTACKS = [
    *(Attack(number=36, name=name, act=forged(code), because=PARSER) for name, code in FORGED),
    Attack(number=37, name="tools that the run was not given", act=strange_names, because=PARSER),
    Attack(number=38, name="objects of the host", act=host_objects, because=PARSER),
    Attack(
        number=39,
        name="a forged acknowledgement",
        act=forged_acknowledgement,
        without=Without(limits=(("seconds", 3600.0),)),
    ),
    Attack(
        number=39,
        name="too many calls",
        act=too_many_calls,
        without=Without(limits=(("calls", 10_000),)),
    ),
    Attack(
        number=39,
        name="many calls at once that use the box again",
        act=many_at_once,
        because="locks decide this, and not a defence that can be switched off",
    ),
    Attack(
        number=39,
        name="a box that dies during a call",
        act=box_killed_during_a_call,
        because="locks decide this, and not a defence that can be switched off",
    ),
    Attack(
        number=0,
        name="pretending to be the supervisor",
        act=guest(
            """
            # A run has one open socket, number 3, which leads to the supervisor. No open file of
            # a run leads to the host.
            for number in range(4, 64):
                try:
                    os.fstat(number)
                    print("NOT HELD:", number, os.readlink(f"/proc/self/fd/{number}"))
                except OSError:
                    pass
            print("held")
            """
        ),
        because="the supervisor closes these files, and the test cannot switch this off",
    ),
]
