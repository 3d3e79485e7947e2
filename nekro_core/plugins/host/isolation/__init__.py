"""What a plugin changes in the process, and how it is undone."""
