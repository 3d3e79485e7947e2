"""Connects to the unencrypted rooms of any Matrix homeserver.

Enabled by ``matrix`` in ``NEKRO_PLATFORMS`` and an account in ``MATRIX_BOTS`` (docs/matrix.md).
Standard: https://spec.matrix.org/v1.12/client-server-api/.
"""

from nonebot.drivers import Driver

from nekro_core.api.adapter import Adapter, Host


def create(host: Host, driver: Driver) -> Adapter:
    """Make the adapter. Raises `ImportError` if the extra ``matrix`` is not installed, and
    `ValueError` if the settings are invalid."""
    from .settings import create as make  # noqa: PLC0415 - this import takes a second

    return make(host, driver)


__all__ = ["create"]
