"""Measurements of the product; the README.md of each folder has the tables and their commands."""
