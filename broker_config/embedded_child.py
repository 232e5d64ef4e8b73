"""The embedded broker's own process: `python -P embedded_child.py CONFIGURATION`.

Runs until it is ended; the broker has no other way to stop. Imports nothing of ours.
"""

from __future__ import annotations

import logging
import sys


def main() -> None:
    # It reports every packet as an error; only what Python itself says is worth the time.
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("rumqttd").setLevel(logging.CRITICAL)
    from iotcore.iotcore import IotCoreBroker

    broker = IotCoreBroker(config_path=sys.argv[1])
    try:
        broker.check_ports()
    except OSError as error:
        sys.exit(f"Address already in use: {error}")
    broker.run_forever()


if __name__ == "__main__":
    main()
