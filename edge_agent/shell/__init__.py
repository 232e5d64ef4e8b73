"""Joins the agent's machine to its adapters; see `agent`."""
