"""Keeps bytes by digest and manifests by name, and serves them over HTTP.

Knows nothing about ONNX: of a manifest it reads the name and the blobs, so that nothing named
there is missing. Who cuts models and who runs them is none of its business.
"""
