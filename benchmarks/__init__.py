"""Measured comparisons: `python -m benchmarks`. How they are made: docs/methodology.md."""
