"""One turn: ask the model, run its code as it arrives, record what happened."""
