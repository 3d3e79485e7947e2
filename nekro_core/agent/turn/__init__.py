"""Runs one turn: asks the model, runs its code while the code arrives, and records both."""
