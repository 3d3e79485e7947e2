"""Links a plugin into a bot's data folder. The bot then loads the files that the author edits."""

from pathlib import Path

from nekro_core.system.errors import NekroError

LOCAL_FOLDER = "plugins"
"""The folder below the data folder in which the operator puts plugins."""


class NoPlugin(NekroError, LookupError):
    """There is no plugin at a path. The text says what is expected."""


def link_plugin(plugin: Path, data_dir: Path) -> str:
    """Link the file or folder of a plugin into a bot's data folder. Returns the plugin's item name
    (``local/NAME``).

    Raises `NoPlugin`.
    """
    place = plugin.resolve()
    name = plugin_name(place)
    folder = data_dir / LOCAL_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / (name if place.is_dir() else f"{name}.py")
    if not link.is_symlink() or link.readlink() != place:
        link.unlink(missing_ok=True)
        link.symlink_to(place, target_is_directory=place.is_dir())
    return f"local/{name}"


def plugin_name(place: Path) -> str:
    """Return the name under which a plugin's file or folder is imported. Raises `NoPlugin`."""
    place = place.resolve()
    is_folder = (place / "__init__.py").is_file() or (place / "_manifest.json").is_file()
    is_file = place.suffix == ".py" and place.is_file()
    if not (is_folder or is_file):
        raise NoPlugin(
            f"{place}: no plugin; expected a file x.py, a folder with an __init__.py, or one with "
            "a _manifest.json"
        )
    name = place.stem if is_file else place.name
    name = name.replace("-", "_").replace(".", "_")
    if not name.isidentifier() or name.startswith("_"):
        kind = "file" if is_file else "folder"
        raise NoPlugin(f"{place}: rename the {kind} to letters, digits and '_', no digit first")
    return name
