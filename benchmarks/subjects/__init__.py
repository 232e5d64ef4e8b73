"""The subjects: each measures one promise, and gives rows and pictures."""
