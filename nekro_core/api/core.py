"""Re-exports the logger."""

from loguru import logger

__all__ = ["logger"]
