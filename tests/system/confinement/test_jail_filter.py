"""The tests compute the decision of the system call filter for every call number, as the kernel
does."""

import errno
import os
import re
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from nekro_core import sandbox
from nekro_core.system.confinement import jail_allowed_calls, jail_filter
from nekro_core.system.confinement.jail_allowed_calls import allowed_numbers

ALLOW, KILL = 0x7FFF0000, 0x80000000
DENY, NONE = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028}
INSTRUCTION = struct.Struct("HBBI")

machines = pytest.mark.parametrize("machine", jail_filter.MACHINES)


@cache
def instructions(machine: str, *, watches: bool = True) -> list[tuple[int, int, int, int]]:
    return list(INSTRUCTION.iter_unpack(jail_filter.build_filter(machine, watches=watches)))


def judged(
    machine: str, number: int, *arguments: int, by: str = "", watches: bool = True
) -> tuple[int, int]:
    """Return the filter's decision about a call, and how many instructions it took (classic BPF,
    `man 2 bpf`)."""
    given = (*arguments, *(0 for _ in range(6 - len(arguments))))
    data = struct.pack("<IIQ6Q", number, AUDIT[by or machine], 0, *given)
    loaded, place, taken = 0, 0, 0
    while True:
        code, if_true, if_false, value = instructions(machine, watches=watches)[place]
        place, taken = place + 1, taken + 1
        if code == 0x06:
            return value, taken
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
            continue
        holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
        place += if_true if holds else if_false


@machines
def test_system_calls_that_are_not_listed_are_refused(machine: str) -> None:
    looked_at = {
        "x86_64": {56, 41, 53, 16, 135, 302},
        "aarch64": {220, 198, 199, 29, 92, 261},
    }[machine]
    named = allowed_numbers(machine, watches=True)
    for number in (*range(5000), 0x3FFFFFFF):
        said, _ = judged(machine, number, 0)
        if number in named:
            assert said == ALLOW, number
        elif number not in looked_at:
            assert said in (DENY, NONE), number
        if number > 470:
            assert said == NONE


@machines
def test_a_call_of_another_architecture_kills_the_process(machine: str) -> None:
    for other in AUDIT:
        assert (judged(machine, 63, by=other)[0] == KILL) == (other != machine)


def test_an_x32_call_kills_the_process() -> None:
    assert judged("x86_64", 0x40000000 | 39)[0] == KILL
    assert judged("x86_64", 0xFFFFFFFF)[0] == KILL


@machines
def test_some_calls_are_refused_because_of_their_arguments(machine: str) -> None:
    clone, socket, pair, ioctl, personality, limit = {
        "x86_64": (56, 41, 53, 16, 135, 302),
        "aarch64": (220, 198, 199, 29, 92, 261),
    }[machine]
    assert judged(machine, clone, 0x00010F11)[0] == ALLOW  # this call makes a thread
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert judged(machine, clone, flag | 17)[0] == DENY
    for call in (socket, pair):
        assert [judged(machine, call, family)[0] for family in (1, 2, 10)] == [ALLOW] * 3
        assert {judged(machine, call, family)[0] for family in (0, 16, 17, 38, 40)} == {NO_FAMILY}
    assert judged(machine, ioctl, 0, 0x5401)[0] == ALLOW
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32):  # the kernel reads only the lower 32 bits
        assert judged(machine, ioctl, 0, request)[0] == DENY
    assert [judged(machine, personality, one)[0] for one in (0, 0xFFFFFFFF)] == [ALLOW] * 2
    assert judged(machine, personality, 0x0040000)[0] == DENY
    assert judged(machine, limit, 0)[0] == ALLOW
    assert judged(machine, limit, 1)[0] == DENY


@machines
def test_clone3_is_reported_as_missing_so_that_glibc_uses_clone(machine: str) -> None:
    assert judged(machine, 435)[0] == NONE  # 435 is clone3


@machines
def test_inotify_is_allowed_only_if_its_watches_are_counted_for_each_box(machine: str) -> None:
    number = {"x86_64": 294, "aarch64": 26}[machine]
    assert judged(machine, number)[0] == ALLOW
    assert judged(machine, number, watches=False)[0] == NONE


@machines
def test_every_call_is_decided_within_twenty_instructions(machine: str) -> None:
    """An earlier filter was a linear list and took 74 instructions for each allowed call."""
    assert len(instructions(machine)) < 256
    assert max(judged(machine, number)[1] for number in range(600)) <= 6 + 8 + 6


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@machines
def test_the_numbers_match_the_kernel_headers(machine: str) -> None:
    if not HEADERS[machine].is_file():
        pytest.skip("the kernel's headers are not installed (Debian: linux-libc-dev)")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text()))
    column = 1 + jail_filter.MACHINES.index(machine)
    rows = [
        row.split()
        for row in (jail_allowed_calls._ALLOWED + jail_allowed_calls._WATCHES).split(", ")
    ]
    known = {row[0]: row[column] for row in rows if row}
    known |= {
        row[0]: str(row[column]) for row in jail_filter._NOT_PERMITTED if row[column] is not None
    }
    wrong = {
        name: (number, found.get({"newfstatat": "fstatat"}.get(name, name), found.get(name)))
        for name, number in known.items()
        if number != "-" and name in found and found[name] != number
    }
    assert not wrong
    assert len(known.keys() & found.keys()) > 200


SANDBOX = Path(sandbox.__file__).parent
IN_FORCE = """
import os, sys
with open(sys.argv[1]) as file:
    source = file.read()
if sys.argv[3] == "slow":
    source = source.replace("from _ctypes import _SimpleCData", "from _gone import _SimpleCData")
names = {"__name__": "loader"}
exec(source.removesuffix("main()\\n"), names)
def lent():
    read, write = os.pipe()
    with open(sys.argv[1], "rb") as file:
        try:
            os.sendfile(write, file.fileno(), 0, 1)
        except OSError as error:
            return error.errno
        return 0
before = lent()
names["filter_calls"](bytes.fromhex(sys.argv[2]))
print(before, lent())
try:
    names["filter_calls"](b"12345678" * 5000)
except OSError as error:
    print("refused")
"""


@pytest.mark.skipif(os.uname().machine not in jail_filter.MACHINES, reason="another processor")
@pytest.mark.parametrize(
    ("loader", "how"),
    [
        ("guest/guest_minimal_stdlib.py", "quick"),
        ("guest/guest_minimal_stdlib.py", "slow"),
        ("docker/inside/load_guest.py", "quick"),
    ],
)
def test_each_program_that_starts_guest_code_installs_the_filter_that_the_host_built(
    loader: str, how: str
) -> None:
    """Two programs start the code in a box, one in a jail and one in a container. Each has its own
    function `filter_calls`, which gives the kernel the filter that the host has built."""
    program = jail_filter.build_buffer_filter(os.uname().machine).hex()
    done = subprocess.run(
        [sys.executable, "-I", "-c", IN_FORCE, SANDBOX / loader, program, how],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"0 {errno.EINVAL}", "refused"]
