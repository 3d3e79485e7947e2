"""Keeps the plugin files that an operator uploaded, so that they can be inspected and installed."""

import hashlib
import io
import re
import shutil
import zipfile
from pathlib import Path

from nekro_core.plugins.installation.sources import SourceRefused
from nekro_core.system.atomic_files import write_whole

FOLDER = "plugin_uploads"
"""The folder of uploads in the data folder."""
MOST_BYTES = 45_000_000
"""Maximum size of an upload in bytes. The console's page of plugins accepts this size; the HTTP API
has a lower limit for all requests."""
_KEPT = 10
"""Maximum number of uploads that are kept. After the installation, the upload is not needed."""
_UNFIT = re.compile(r"[^\w.-]+")


class PluginUploads:
    """The newest uploads of one bot. Its methods block.

    Args:
        folder: The folder for the uploads. It need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, name: str, data: bytes) -> Path:
        """Store an uploaded file. All uploads except the newest ten are deleted.

        Args:
            name: The name of the file on the operator's machine. It ends in ``.zip`` or ``.py``.
            data: Its bytes.

        Returns:
            The stored file, which can be installed.

        Raises:
            SourceRefused: The file is not a zip or Python file, or it is too large.
            OSError: The file cannot be stored.
        """
        plain = _UNFIT.sub("_", Path(name.replace("\\", "/")).name)[-100:]
        kind = Path(plain).suffix.lower()
        if len(data) > MOST_BYTES:
            raise SourceRefused(f"{name}: {len(data)} bytes, at most {MOST_BYTES} can be uploaded")
        if kind not in (".zip", ".py"):
            raise SourceRefused(f"{name}: expected a .zip or a .py file")
        if kind == ".zip" and not zipfile.is_zipfile(io.BytesIO(data)):
            raise SourceRefused(f"{name}: this is no zip, or a part of it is missing")
        # Each upload gets a separate folder: the file must keep its name, which becomes the name of
        # the plugin, and two uploads may have the same name.
        own = self._folder / hashlib.sha256(data).hexdigest()[:24]
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        stored = own / plain.lstrip(".-")
        write_whole(stored, data)
        self._delete_old()
        return stored

    def _delete_old(self) -> None:
        folders = sorted(self._folder.iterdir(), key=lambda each: each.stat().st_mtime)
        for each in folders[:-_KEPT]:
            shutil.rmtree(each, ignore_errors=True)
