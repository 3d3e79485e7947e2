"""Makes tools from Python functions. When a model calls a tool, the function is called."""
