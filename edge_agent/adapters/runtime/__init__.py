"""ONNX Runtime: sessions, loading and preparing segments, tables read by row, frames as tensors.
Where blobs lie on disk is `store`'s.
"""
