"""After a commit: whether the failures stay away, and the question whether to take a change back."""
