"""Guards: what refuses a revision before any compute is spent on it. ``inspecting`` has the list of them."""
