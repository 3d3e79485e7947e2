"""Queries on the bot's tables, with the class names of nekro-agent's database models.

The queries support what plugins use of Tortoise ORM. `Query` writes conditions in SQL where SQL can
express them, and checks the other conditions on the rows that it has read.
"""
