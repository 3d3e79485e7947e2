"""Names that existing plugins import, mapped onto the api.

`provided_names` offers the modules while a bot runs, `hosted` says which bot their names mean:
`Host` is that bot. What stands behind each name: `nekro_core.compat.facades`.
"""

from nekro_core.compat.host import Host, hosted
from nekro_core.compat.imports import provided_names
from nekro_core.compat.kept_file import KeptFile

__all__ = ["Host", "KeptFile", "hosted", "provided_names"]
