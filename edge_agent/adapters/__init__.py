"""What touches the world for the agent: broker, store, disk, memory, sensors, ONNX Runtime.

Each takes plain arguments and answers through callbacks; none knows the machine that decides.
"""
