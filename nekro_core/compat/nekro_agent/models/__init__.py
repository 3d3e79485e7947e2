"""How plugins of Nekro Agent ask models."""
