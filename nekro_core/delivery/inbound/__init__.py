"""Messages on their way in: order, cleaning, storing."""
