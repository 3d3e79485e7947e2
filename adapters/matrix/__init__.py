"""Connects to Matrix: unencrypted rooms of any homeserver.

Enabled by ``matrix`` in ``NEKRO_PLATFORMS`` and an account in ``MATRIX_BOTS``: docs/matrix.md.
Standard: https://spec.matrix.org/v1.12/client-server-api/.
"""

from nonebot.drivers import Driver

from nekro_core.api.adapter import Adapter, Host


def create(host: Host, driver: Driver) -> Adapter:
    """Make the adapter. Raises `ImportError` if its extra is not installed, and `ValueError` for
    settings that cannot be read."""
    from .settings import create as make  # noqa: PLC0415 - it brings a second of imports with it

    return make(host, driver)


__all__ = ["create"]
