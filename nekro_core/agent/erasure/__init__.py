"""Erases what is known of a person, in every room that keeps something."""
