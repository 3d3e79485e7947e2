"""The built-in plugins, one folder each. They are loaded by path as `nekro_builtin.plugins.*`."""
