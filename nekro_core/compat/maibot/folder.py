"""MaiBot plugins among the operator's: folders with a manifest, those first that others need."""

from collections.abc import Mapping
from pathlib import Path

from nekro_core.compat.maibot.manifest import (
    FILE_NAME,
    MaiBotManifest,
    MaiBotManifestError,
    read_manifest,
)
from nekro_core.plugins.host.loader import DiscoveredPlugin

MODULE = "plugin.py"


def items(source: str, folder: Path) -> list[DiscoveredPlugin]:
    """The plugins of a folder, sorted, each behind those that its manifest asks for."""
    if not folder.is_dir():
        return []
    found = sorted(
        path.parent
        for path in folder.glob(f"*/{FILE_NAME}")
        if not path.parent.name.startswith((".", "_"))
    )
    known: dict[Path, MaiBotManifest | None] = {path: _manifest(path) for path in found}
    by_id = {known.plugin_id: path for path, known in known.items() if known is not None}
    ordered: dict[Path, None] = {}
    for path in found:
        _place(path, known, by_id, ordered, frozenset())
    return [DiscoveredPlugin(source, path.name, path / MODULE, in_folder=True) for path in ordered]


def _manifest(folder: Path) -> MaiBotManifest | None:
    try:
        return read_manifest(folder / FILE_NAME)
    except MaiBotManifestError:
        return None  # it is told when the plugin is loaded


def _place(
    path: Path,
    known: Mapping[Path, MaiBotManifest | None],
    by_id: Mapping[str, Path],
    ordered: dict[Path, None],
    above: frozenset[Path],
) -> None:
    if path in ordered or path in above:
        return  # two that need each other keep their alphabetical order
    manifest = known[path]
    for needed, _ in manifest.plugins if manifest else ():
        if needed in by_id:
            _place(by_id[needed], known, by_id, ordered, above | {path})
    ordered[path] = None
