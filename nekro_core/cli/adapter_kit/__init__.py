"""``nekro adapter``: list adapters, write a new one, check one."""
