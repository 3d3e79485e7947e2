"""Matrix: every homeserver's unencrypted rooms.

Enabled by ``matrix`` in ``NEKRO_PLATFORMS`` and the account in ``MATRIX_BOTS``: docs/matrix.md.
Standard: https://spec.matrix.org/v1.12/client-server-api/.
"""

from collections.abc import Mapping
from typing import Any

from nonebot.drivers import Driver

from nekro_core.api.adapter import Adapter, AdapterFactory, Host

NAME = "matrix"


def factories(settings: Mapping[str, Any]) -> Mapping[str, AdapterFactory]:
    """What makes the adapter, where an operator has asked for it."""
    return {NAME: create} if NAME in (settings.get("nekro_platforms") or ()) else {}


def create(host: Host, driver: Driver) -> Adapter:
    """The adapter. Raises `RuntimeError` where its extra is missing, `ValueError` for settings that
    cannot be read. Imported only here: it brings a second of imports with it."""
    try:
        from .settings import create as make  # noqa: PLC0415 - see above
    except ImportError as error:
        raise RuntimeError(
            f"NEKRO_PLATFORMS has matrix, which is not installed ({error}): "
            "pip install 'nekro-core[matrix]'"
        ) from error
    return make(host, driver)


__all__ = ["create", "factories"]
