"""Holds one folder for each adapter. The bot imports them as `nekro_builtin.adapters.*`."""
