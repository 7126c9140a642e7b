"""Mistakes that come back: what makes two the same, where they occurred, and which are worth a change."""
