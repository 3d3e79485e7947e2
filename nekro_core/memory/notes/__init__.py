"""Notes: facts, wishes and decisions, each with the message that it comes from."""
