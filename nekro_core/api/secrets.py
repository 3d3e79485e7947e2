"""Secrets that an adapter needs and nobody has to think of."""

from nekro_core.system.secrets import ComparedSecret, kept_secret, secret_file

__all__ = ["ComparedSecret", "kept_secret", "secret_file"]
