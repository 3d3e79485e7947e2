"""Makes backups of a bot while it runs, checks them, and restores them."""
