"""Names that existing plugins import, mapped onto the api."""

from nekro_core.compat.imports import provided_names

__all__ = ["provided_names"]
