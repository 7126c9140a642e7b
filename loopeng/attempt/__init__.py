"""One sample, attempt by attempt: the ATTEMPT graph and what its steps need."""
