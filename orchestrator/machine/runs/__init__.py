"""Rules for runs, their clients and models: requests, credits, admission, progress, endings.
What becomes of one item once it was admitted is `items`'.
"""
