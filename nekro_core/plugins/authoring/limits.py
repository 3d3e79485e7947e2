"""Limits on what plugins use. The settings of plugins read them, so this file imports nothing."""

SHARED_BYTES = 512 * 1024 * 1024
"""Maximum number of bytes of a chat's shared folder on the host, unless the operator sets another
number."""
