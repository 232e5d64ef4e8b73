"""What the orchestrator decides: `machine.handle(event, now) -> instructions`.

No I/O, no clock, no thread. What must survive is an instruction to the journal whose completion
comes back as an event.
"""
