"""One folder a platform. Loaded by path as `nekro_builtin.adapters.*`; see docs/decisions."""
