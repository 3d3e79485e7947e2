"""Finds, limits and undoes effects of plugins on the process: tasks, replaced functions, a blocked
event loop."""
