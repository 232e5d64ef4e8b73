"""What the machine remembers and speaks: entities, their states, events and instructions.
No rules: what is done with an item, plan, run or device is decided in the folders beside this.
"""
