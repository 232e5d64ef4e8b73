"""What the agent decides: `machine.handle(event, now) -> instructions`. No I/O, clock or thread."""
