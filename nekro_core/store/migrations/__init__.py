"""The history of the tables, oldest first. Never edit one that was released."""
