"""Looking on from outside: an MQTT client that may read everything public and write nothing."""
