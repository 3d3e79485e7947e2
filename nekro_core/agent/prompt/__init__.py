"""What the model is shown: rules, tools, history, pictures."""
