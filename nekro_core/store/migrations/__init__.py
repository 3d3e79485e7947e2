"""The migrations of the tables, oldest first. Never edit a released migration."""
