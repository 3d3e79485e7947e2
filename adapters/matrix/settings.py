"""Reads the adapter's settings. Their names are those of nonebot-adapter-matrix."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nonebot.adapters.matrix.config import Config
from nonebot.drivers import Driver
from pydantic import ValidationError

from nekro_core.api.adapter import Host

from .adapter import SEND_S, MatrixAdapter
from .gateway import MatrixGateway

FOLDER = "matrix"
"""The folder, in the data folder, that has the sync position and renewed token of each account."""


def create(host: Host, driver: Driver) -> MatrixAdapter:
    """Make the adapter. Raises `ValueError` if the settings are invalid."""
    folder = host.data_dir / FOLDER
    config = read_config(host.settings, folder)
    send_s = float(host.settings.get("api_timeout") or SEND_S)
    return MatrixAdapter(host, driver, MatrixGateway(driver, config), folder, send_s=send_s)


def read_config(settings: Mapping[str, Any], folder: Path) -> Config:
    """Read the adapter's settings from all settings. A list may also be a JSON text, as in an
    environment variable. Raises `ValueError`.

    If an account can renew its token, the token in the settings becomes invalid. The new token is
    stored in the file ``MATRIX_TOKEN_STORE_PATH``, by default in ``folder``.
    """
    written: dict[str, Any] = {}
    for name in Config.model_fields:
        value = settings.get(name)
        if name == "matrix_bots" and isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError(f"MATRIX_BOTS: expected JSON, for example {_EXAMPLE}") from None
        if value not in (None, ""):
            written[name] = value
    try:
        config = Config.model_validate(written)
    except ValidationError as error:
        # Pydantic's messages are used without the values, because the values contain tokens.
        faults = [f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors()]
        raise ValueError("; ".join(name.upper() for name in faults)) from None
    for bot in config.matrix_bots:
        if not bot.homeserver.startswith(("http://", "https://")):
            raise ValueError(
                f"MATRIX_BOTS: homeserver {bot.homeserver!r}, expected an address "
                "such as 'https://matrix.example.org'"
            )
    renews = any(
        bot.refresh_token or bot.login_password or bot.oauth_enabled for bot in config.matrix_bots
    )
    if renews and not config.matrix_token_store_path:
        config.matrix_token_store_path = str(folder / "tokens.json")
    return config


_EXAMPLE = '[{"homeserver": "https://matrix.example.org", "access_token": "syt_..."}]'
