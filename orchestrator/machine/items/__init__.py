"""Rules for one item: how it ends, who holds what of it, what is sent again, what is released.
Who serves it is `plans`'; when it enters is `runs`'.
"""
