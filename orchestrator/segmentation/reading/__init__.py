"""A model file opened, measured, checked and brought into the form that can be cut.
Loads no weight; sizes and types of values are `typing`'s.
"""
