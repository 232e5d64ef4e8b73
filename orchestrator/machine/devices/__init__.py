"""Rules for devices: what proves life, what they report and send, who replaces one that is gone.
What a device should serve is `plans`'.
"""
