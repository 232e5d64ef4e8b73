"""What the agent remembers and speaks: partitions, frames held, fetches, events, instructions.
No rules: those are in the folders beside this.
"""
