"""The gate: a planned, paired, exact test of a revision. ``comparing`` runs it, ``verdicts`` says what it shows."""
