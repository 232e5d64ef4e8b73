"""How the broker is set up: who may connect, what each may do, and a broker that obeys.

Generates credentials and the access list from `wire`, and runs Mosquitto, or an embedded broker
where there is none. Knows no device and reads no message; the broker knows nobody.
"""
