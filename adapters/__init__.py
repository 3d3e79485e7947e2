"""Holds one folder for each adapter. They are imported as `nekro_builtin.adapters.*`."""
