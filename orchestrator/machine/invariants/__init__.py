"""What must hold after every event: indices and totals equal what a look at everything gives.
Costs in proportion to all there is, so it is on in tests and off in production.
"""
