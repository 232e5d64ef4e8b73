"""A made-up crowd around the orchestrator: in its own process, and over a real broker."""
