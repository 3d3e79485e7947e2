"""One folder a built-in plugin. Loaded by path as `nekro_builtin.plugins.*`."""
