"""Turns a function into a tool that a model can call, and a model's call into a call of the
function."""
