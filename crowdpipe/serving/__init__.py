"""What `crowdpipe up` and the demo start and stop: broker, store, orchestrator, agents."""
