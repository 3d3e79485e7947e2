"""What every plugin needs: the log."""

from loguru import logger

__all__ = ["logger"]
