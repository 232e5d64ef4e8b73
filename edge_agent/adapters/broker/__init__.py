"""How far this device gets on its way to the broker, for `crowdpipe-agent doctor`."""
