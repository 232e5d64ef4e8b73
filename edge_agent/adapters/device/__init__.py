"""The device itself: its settings, battery, heat, memory, processor and ONNX Runtime's version.
Reads; decides nothing.
"""
