"""`crowdpipe-agent`: run one edge agent, or say what this device can do."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bus.program_log import log_to_stderr
from edge_agent import __version__
from edge_agent.adapters.deferred import deferred_modules

with deferred_modules():  # before anything imports what they stand for
    from edge_agent.adapters.device.settings import LOG_LEVELS, read_settings
    from wire.errors import CrowdpipeError

EPILOG = """\
example:
  crowdpipe-agent --broker 'mqtts://pixel-7:SECRET@192.168.1.10:18830?authority=sha256:…' \\
      --cache ~/crowdpipe --memory 256MiB
  crowdpipe-agent doctor            what commonly fails here, and what to do about it

Every setting may also stand in the environment (CROWDPIPE_AGENT_BROKER, …) or in a file
(~/.config/crowdpipe-agent.yaml); flags win over the environment, which wins over the file.
Status: 0 asked to stop, 2 a setting to mend, 3 something around the agent, 1 its own fault.
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="crowdpipe-agent",
        description="Serve a part of a model on this device.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=("doctor",),
        help="check what commonly fails, say what to do about it, and end",
    )
    parser.add_argument("--broker", help="mqtts://name:secret@host:port?authority=sha256:…")
    parser.add_argument("--authority", help="certificate of who vouches for broker and store")
    parser.add_argument("--desk-key", help="obey only orders that the desk of this key signed")
    parser.add_argument("--name", help="this device's name (default: the broker's user)")
    parser.add_argument("--cache", help="folder for blobs and waiting frames")
    parser.add_argument("--memory", help="what partitions may take, like 256MiB")
    parser.add_argument("--disk", help="what cached blobs may take, like 4GiB")
    parser.add_argument("--hold", help="what waiting and kept frames may take, like 256MiB")
    parser.add_argument("--threads", help="of ONNX Runtime within an operator (default: 1)")
    parser.add_argument("--log", choices=LOG_LEVELS, help="how much to say (default: info)")
    parser.add_argument(
        "--validate", action="store_true", help="check every invariant after every event (slow)"
    )
    parser.add_argument("--config", type=Path, help="the settings file")
    parser.add_argument("--json", action="store_true", help="of doctor: as JSON")
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """The process's exit status."""
    flags = vars(parser().parse_args(arguments))
    command, as_json, config = flags.pop("command"), flags.pop("json"), flags.pop("config")
    validated = flags.pop("validate")
    if command == "doctor":
        from edge_agent.shell.doctor import examine_device

        return examine_device(flags, os.environ, config, as_json=as_json)
    with deferred_modules():  # here, because doctor and --help need none of it
        from edge_agent.shell.agent import run

    try:
        settings = read_settings(flags, os.environ, config)
        log_to_stderr(settings.log)
        return run(settings, validated=validated)
    except CrowdpipeError as error:
        print(f"crowdpipe-agent: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
