"""Real models and inputs to try crowdpipe with. Nothing in the product imports this."""
