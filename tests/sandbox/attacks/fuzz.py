"""Gives random bytes to the functions that read untrusted input. The functions may refuse the
bytes, but only with documented errors.

``python -m tests.sandbox.attacks.fuzz [SECONDS [TARGET]]`` runs for a long time. If atheris is
installed, coverage guides the input; otherwise hypothesis makes it. The tests (``test_fuzz.py``) do
the same for a short time.
"""

import contextlib
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.link.calls import InvalidCall, decode_call
from nekro_core.sandbox.link.channel import Channel
from nekro_core.sandbox.tools.inputs import read_input
from nekro_core.sandbox.tools.result import SandboxToolError

_PLAIN = (type(None), bool, int, float, str, bytes)
_TOOLS = ("shell", "read_file", "write_file", "glob", "browse", "sandbox_create", "transfer", "x")


def frames(data: bytes) -> None:
    """Check the host's end of a channel: however the bytes are cut into pieces, the frames are the
    same, and the channel is lost at most once."""
    seen: list[list[wire.Frame]] = []
    for size in (1 << 16, 1, 7):
        found: list[wire.Frame] = []
        lost: list[str] = []
        channel = Channel(found.append, lost.append)
        for start in range(0, len(data), size):
            channel.receive(memoryview(data)[start : start + size])
            if lost:
                break  # the host then closes the stream
        assert len(lost) <= 1
        seen.append(found)
    assert seen[0][: len(seen[1])] == seen[1] == seen[2]
    joined = b"".join(wire.frame(*one) for one in seen[1])
    assert data.startswith(joined)


def calls(data: bytes) -> None:
    """A call's arguments become plain data or raise `InvalidCall`."""
    text, _, body = data.partition(b"\0")
    with contextlib.suppress(InvalidCall):
        call = decode_call(text, body)
        assert isinstance(call.name, str)
        _check_plain([list(call.args), call.kwargs])


def inputs(data: bytes) -> None:
    """A tool's input becomes checked values or raises `SandboxToolError`."""
    name = _TOOLS[data[0] % len(_TOOLS)] if data else ""
    with contextlib.suppress(ValueError, RecursionError):
        written = json.loads(data[1:])
        with contextlib.suppress(SandboxToolError):
            read_input(name, written)


def _check_plain(value: object) -> None:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is list:
            waiting += one
        elif type(one) is dict:
            assert all(type(key) is str for key in one)
            waiting += one.values()
        else:
            assert type(one) in _PLAIN, type(one)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "frames": frames,
    "calls": calls,
    "inputs": inputs,
}

_heads = st.builds(
    wire.frame,
    st.integers(0, 40),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=40),
    st.binary(max_size=40),
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["$b", "$t", "$d", "$x", "path", "command", "port"]), inner, max_size=3
        )
    ),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode())
_a_call = st.builds(lambda inner: b'["tool", [' + inner + b"], {}]\0body", _json)
_an_input = st.builds(lambda name, inner: bytes([name]) + inner, st.integers(0, 7), _json)
EXAMPLES: dict[str, st.SearchStrategy[bytes]] = {
    "frames": st.lists(_heads | st.binary(max_size=20), max_size=5).map(b"".join),
    "calls": st.binary() | _json | _a_call,
    "inputs": st.binary() | _an_input,
}


def try_for(seconds: float, name: str) -> None:
    """Run hypothesis again and again for so many seconds."""
    checks = list(HealthCheck)
    once = settings(max_examples=2000, deadline=None, database=None, suppress_health_check=checks)
    tried = once(given(EXAMPLES[name])(TARGETS[name]))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        tried()


def _with_coverage(seconds: float, name: str) -> None:
    """Run atheris in a separate process, since atheris ends the process in which it runs."""
    code = (
        "import atheris, sys\n"
        "with atheris.instrument_imports(include=['nekro_core.sandbox']):\n"
        "    from tests.sandbox.attacks import fuzz\n"
        f"atheris.Setup(sys.argv, fuzz.TARGETS[{name!r}])\n"
        "atheris.Fuzz()\n"
    )
    limit = f"-max_total_time={int(seconds)}"
    subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            limit,
            "-max_len=4096",
            "-verbosity=0",
            "-print_final_stats=1",
        ],
        check=True,
    )


def main(words: list[str]) -> None:
    """Fuzz the named targets, or all."""
    seconds = float(words[0]) if words else 60.0
    for name in words[1:] or TARGETS:
        led = importlib.util.find_spec("atheris") is not None
        print(f"{name}: {seconds:g} s with {'atheris' if led else 'hypothesis'}", flush=True)
        (_with_coverage if led else try_for)(seconds, name)


if __name__ == "__main__":
    main(sys.argv[1:])
