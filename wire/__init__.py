"""The language that all crowdpipe programs share.

Says what names, topics, messages, manifests and frames look like, byte by byte, and refuses
what does not. It opens no socket or file, reads no clock, and needs nothing but the standard
library; each program's adapters carry what is written here.
"""

WIRE_VERSION = 1  # the newest that is spoken here
OLDEST_WIRE_VERSION = 1  # the oldest that is understood
