"""The demonstration: one real model over five agents on this machine, measured as it runs."""
