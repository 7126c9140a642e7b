"""Reports: pure functions from summaries to text. Nothing here reads a database or prints."""
