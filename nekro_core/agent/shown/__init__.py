"""Stores the prompt of each step as references, and makes the prompt again from them."""
