"""What each value is: element type, dimensions, and their bounds, as ONNX Runtime infers them.
Changes nothing in the graph.
"""
