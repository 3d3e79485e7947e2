"""Implements ``nekro adapter``: lists the adapters, writes a new adapter, or checks an adapter."""
