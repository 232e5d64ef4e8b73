"""ONNX Runtime: sessions, loading and preparing segments, tables read by row, frames as tensors.
Keeps no files: `store` does.
"""
