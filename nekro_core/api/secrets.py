"""Re-exports the functions that make and store an adapter's secrets."""

from nekro_core.system.secrets import ComparedSecret, kept_secret, secret_file

__all__ = ["ComparedSecret", "kept_secret", "secret_file"]
