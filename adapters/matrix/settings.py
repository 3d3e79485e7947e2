"""Reads the settings. They have the names of NoneBot's adapter."""

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
"""Folder below the data folder. It stores the sync position of each account and renewed tokens."""


def create(host: Host, driver: Driver) -> MatrixAdapter:
    """Make the adapter. Raises `ValueError` for settings that cannot be read."""
    folder = host.data_dir / FOLDER
    config = read_config(host.settings, folder)
    send_s = float(host.settings.get("api_timeout") or SEND_S)
    return MatrixAdapter(host, driver, MatrixGateway(driver, config), folder, send_s=send_s)


def read_config(settings: Mapping[str, Any], folder: Path) -> Config:
    """Read the adapter's settings out of all settings. In the process environment a list is
    written as JSON. Raises `ValueError`.

    If an account can renew its token, the new one is stored in ``MATRIX_TOKEN_STORE_PATH``, by
    default below ``folder``: the token in the settings is no longer valid then.
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
        # The values are left out, because they contain tokens.
        faults = [f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors()]
        raise ValueError("; ".join(name.upper() for name in faults)) from None
    if not config.matrix_bots:
        raise ValueError(f"MATRIX_BOTS names no account; expected, for example, {_EXAMPLE}")
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
