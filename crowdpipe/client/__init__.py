"""The Python client: one model behind a broker, used as if it were an ONNX Runtime session.

`machine` decides (when to repeat, what may be sent, when to give up), `line` talks to the broker,
`session` is what people call.
"""
