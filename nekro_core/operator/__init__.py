"""Says what an operator may see and do."""
