"""Runs one turn: asks the model, runs the code of its reply while the reply arrives, and records
both."""
