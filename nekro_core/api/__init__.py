"""Everything that adapters and plugins may import."""
