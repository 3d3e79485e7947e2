"""Small programs for the inside of a container, sent as source: any Python from 3.9 runs them."""
