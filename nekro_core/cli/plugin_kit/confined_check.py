"""Runs the process in which a plugin is checked: ``python -m nekro_core confined-check FOLDER``.

Before the process imports the rest of the bot and the plugin, it gives up the right to change files
outside of the folder of the check, which is deleted afterwards.
`nekro_core.plugins.installation.check_process` starts the process.
"""

import gc
import sys
from pathlib import Path

import msgspec

from nekro_core.plugins.installation.check_order import RESULT, CheckOrder
from nekro_core.system.confinement.child import die_with_parent
from nekro_core.system.confinement.landlock import WRITE_FILE, WRITE_RIGHTS, take_rights


def check_here(place: str) -> None:
    """Read an order from standard input, carry it out, and write the result into the folder
    ``place``."""
    folder = Path(place)
    die_with_parent()
    # Otherwise each library that a plugin imports would count as an attempt to write a file.
    sys.dont_write_bytecode = True
    confined = take_rights(
        WRITE_RIGHTS,
        [(folder, WRITE_RIGHTS), ("/dev", WRITE_FILE), ("/dev/shm", WRITE_RIGHTS)],  # noqa: S108 - shared memory
    )
    # These imports load the whole bot. Meanwhile the process that started this one prepares the
    # order. Imported objects are never garbage, so the collector would only take time.
    gc.disable()
    from nekro_core.app.logs import log_to_stderr  # noqa: PLC0415
    from nekro_core.cli.plugin_kit.check_report import carry_out  # noqa: PLC0415

    gc.enable()
    log_to_stderr()
    line = sys.stdin.buffer.readline()
    if not line:
        return  # The process that started this one has ended, so there is no order.
    order = msgspec.json.decode(line, type=CheckOrder)
    result = carry_out(order, folder, confined=confined)
    (folder / RESULT).write_bytes(msgspec.json.encode(result))
