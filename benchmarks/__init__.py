"""Measurements of the product; README.md has the tables and how to make them again."""
