"""The interfaces for what an operator may see and do."""
