"""Beds with known truth."""
