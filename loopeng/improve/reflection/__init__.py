"""From failures to a revision: reflectors, what they may read, and which of several suggestions is kept."""
