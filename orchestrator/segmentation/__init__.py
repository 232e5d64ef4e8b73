"""Cuts an ONNX file into content-addressed segments and says in a manifest how they fit.

`segmenter.segment` is the way in; `verify` runs segments and the whole model and compares them.
Runs on the server only: nothing on a device imports this.
"""
