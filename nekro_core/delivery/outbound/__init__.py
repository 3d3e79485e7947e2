"""Messages on their way out: states, splitting, order, retries."""
