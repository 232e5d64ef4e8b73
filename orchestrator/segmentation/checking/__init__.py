"""Segments run in a chain against the whole model, on inputs made for it.
The only place of segmentation that computes anything.
"""
