"""The log under the names of existing plugins."""

import loguru
from loguru import logger

__all__ = ["get_sub_logger", "logger"]


def get_sub_logger(name: str = "") -> "loguru.Logger":
    """The log, with a name in every line's extras."""
    return logger.bind(plugin=name)
