"""Makes Python see modules that were written just now."""

import sys
from importlib.machinery import FileFinder
from pathlib import Path


def forget_listings(folder: Path) -> None:
    """Have Python read ``folder`` and the folders in it again at the next import.

    Python keeps a listing of each folder that it imports from, and reads the folder again only if
    its modification time has changed, which is too coarse for a file that was written just now.
    `importlib.invalidate_caches` is no help: it makes Python read every folder again, and fails if
    another thread imports a module meanwhile, because it iterates over the dictionary that the
    import changes.
    """
    above = f"{folder}/"
    for path, finder in sys.path_importer_cache.copy().items():
        if f"{path}/".startswith(above) and isinstance(finder, FileFinder):
            finder.invalidate_caches()
