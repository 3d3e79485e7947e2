"""Finds, limits and undoes what plugins do to the process: tasks, patches, a blocked loop."""
