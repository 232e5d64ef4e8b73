"""What `crowdpipe-agent doctor` makes of facts: verdicts and words.

Asks nothing itself: that is for adapters.
"""
