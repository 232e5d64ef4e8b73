"""The JSON messages, one module per topic. Each is a frozen dataclass; `wire.record` carries it."""
