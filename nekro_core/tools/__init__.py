"""Makes a tool that a model can call from a Python function, and calls the function when the model
calls the tool."""
