"""Reads the adapter's settings. Their names are those of nonebot-adapter-onebot."""

import json
from collections.abc import Mapping
from typing import Any

from loguru import logger
from nonebot.adapters.onebot.v11.config import Config
from nonebot.drivers import ASGIMixin, Driver
from pydantic import ValidationError

from nekro_core.api.adapter import Host
from nekro_core.api.secrets import kept_secret, secret_file

from .access import KEPT_AS, require_token_checks
from .adapter import SEND_S, OneBotV11Adapter
from .gateway import FRAME_BYTES, RECONNECT_S, OneBotGateway

SERVER_OPTIONS: Mapping[str, Any] = {
    "ws_max_size": FRAME_BYTES,
    # A pong waits behind the frame that is being sent. A frame of 40 MiB takes 40 s at 1 MB/s.
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 60.0,
}
"""Options for the web server. With uvicorn's defaults (16 MiB, 20 s), a large picture in base64
would end the account's connection."""


def create(host: Host, driver: Driver, *, reconnect_s: float = RECONNECT_S) -> OneBotV11Adapter:
    """Make the adapter with its routes. Raises `RuntimeError` if an HTTP route accepts events
    without a token, `TypeError` if the driver has no web server, and `ValueError` if a setting is
    invalid."""
    if not isinstance(driver, ASGIMixin):
        raise TypeError(f"driver {driver.type} serves no web application; ~fastapi does")
    require_token_checks(driver)
    config = read_config(host.settings)
    if not config.onebot_access_token:
        config.onebot_access_token = kept_secret(host.data_dir, KEPT_AS)
        path = secret_file(host.data_dir, KEPT_AS)
        logger.info("OneBot v11: connect to /onebot/v11/ws with the access token in {}", path)
    if config.onebot_api_roots:
        logger.warning("ONEBOT_API_ROOTS is not used: calls go over the WebSocket")
    send_s = float(host.settings.get("api_timeout") or SEND_S)
    return OneBotV11Adapter(
        host, driver, OneBotGateway(driver, config, reconnect_s=reconnect_s), send_s=send_s
    )


def read_config(settings: Mapping[str, Any]) -> Config:
    """Take the adapter's settings out of all settings of the bot. A list may also be a JSON text,
    as in an environment variable. Raises `ValueError`."""
    written: dict[str, Any] = {}
    for name in ("access_token", "secret", "ws_urls", "api_roots"):
        value = settings.get(f"onebot_v11_{name}") or settings.get(f"onebot_{name}")
        if value and isinstance(value, str) and name in ("ws_urls", "api_roots"):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError(
                    f"ONEBOT_V11_{name.upper()}={value!r}: expected JSON, "
                    'for example ["ws://127.0.0.1:3001"]'
                ) from None
        if value:
            written[f"onebot_{name}"] = str(value) if name == "access_token" else value
    try:
        return Config.model_validate(written)
    except ValidationError as error:
        raise ValueError(f"the OneBot v11 settings: {error}") from None
