"""The folder of a box's uploads on the host's side."""

import os
from pathlib import Path

from nekro_core.sandbox.jail.uploads import UploadsFolder


async def test_a_box_can_enter_what_a_careful_process_makes(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        uploads = UploadsFolder.make(tmp_path / "box", group=None, limit=1000)
        await uploads.write("/app/uploads/a/b/file", b"text")
    finally:
        os.umask(before)
    inner = [tmp_path / "box" / "a", tmp_path / "box" / "a" / "b"]
    assert [oct(path.stat().st_mode & 0o777) for path in inner] == ["0o755", "0o755"]
    assert oct((inner[1] / "file").stat().st_mode & 0o777) == "0o444"
