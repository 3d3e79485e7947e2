"""Queries over our tables under the names of existing plugins' models.

A facade, no second ORM: `Query` says what it can in SQL and tries the rest on the rows.
"""
