"""Queries over our tables under the names of existing plugins' models.

This is a facade, not a second ORM. `Query` writes the conditions that it can in SQL, and checks the
others on the rows.
"""
