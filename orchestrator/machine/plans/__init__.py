"""Rules for plans: made, kept, replaced, assigned to devices and written out as assignments.
The arithmetic is `orchestrator.planner`'s; which item enters a plan is `runs`'.
"""
