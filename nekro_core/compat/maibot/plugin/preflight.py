"""Says, before a plugin is installed, why the bot could not load it. The plugin's code does not
run."""

from pathlib import Path

from nekro_core.compat.maibot.plugin.manifest import (
    FILE_NAME,
    PROVIDED_PLUGINS,
    STRICT_REMEDY,
    MaiBotManifestError,
    discover,
    read_manifest,
)
from nekro_core.tools.problem import PluginProblem, ProblemSeverity


def manifest_problems(
    plugin: Path, plugins: Path, *, strict_host_range: bool
) -> list[PluginProblem]:
    """Read the manifest of a plugin's folder, and return the problems that loading it would report.

    A problem that is an error means that the plugin would not be loaded. ``plugins`` is the folder
    of the plugins that are installed. If ``plugin`` is a file or a folder without a manifest, there
    are no problems.
    """
    path = plugin / FILE_NAME
    if not path.is_file():
        return []
    try:
        manifest = read_manifest(path)
    except MaiBotManifestError as error:
        return [_error(f"{FILE_NAME}: {error}")]
    if strict_host_range and manifest.host_range_problem:
        return [_error(f"{FILE_NAME}: {manifest.host_range_problem}", STRICT_REMEDY)]
    there = PROVIDED_PLUGINS | _installed_ids(plugins)
    missing = [needed for needed, _ in manifest.plugins if needed not in there]
    problems = [_error(f"it needs the plugin {needed}", "install that first") for needed in missing]
    return [*problems, *manifest.problems]


def _installed_ids(plugins: Path) -> set[str]:
    found = set()
    for each in discover("local", plugins):
        try:
            found.add(read_manifest(each.path.parent / FILE_NAME).plugin_id)
        except MaiBotManifestError:
            continue  # this plugin cannot be loaded, so no other plugin can use it
    return found


def _error(message: str, remedy: str = "") -> PluginProblem:
    return PluginProblem(severity=ProblemSeverity.ERROR, message=message, remedy=remedy)
