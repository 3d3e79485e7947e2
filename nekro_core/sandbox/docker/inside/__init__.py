"""Small programs for a container. They are sent as source; any Python from 3.9 runs them."""
