"""Joins the orchestrator's machine to its adapters; see `orchestrator`."""
