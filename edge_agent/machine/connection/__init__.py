"""The orchestrator as the agent sees it: connections, commands to carry out, and reports.
What to load and run is decided in `execution`.
"""
