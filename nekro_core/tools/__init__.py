"""Turns a function into a tool that a model can call, and a call into one of the function."""
