"""Tools: from a function to what the model sees, and from a call back to the function."""
