"""Implements ``nekro adapter``: lists adapters, writes a new one, checks one."""
