"""`python -m orchestrator`: run one orchestrator until it is asked to stop."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from bus.program_log import log_to_stderr
from orchestrator import __version__
from orchestrator.shell.orchestrator import Orchestrator
from orchestrator.shell.settings import LOG_LEVELS, default_file, read_settings
from wire.errors import CrowdpipeError

EPILOG = """\
example:
  python -m orchestrator --broker mqtt://orchestrator:SECRET@127.0.0.1:1883 \\
      --store http://127.0.0.1:8080 --home ~/.crowdpipe

Every setting may also stand in the environment (CROWDPIPE_BROKER, ...) or in a YAML file; flags
win over the environment, which wins over the file.
Status: 0 asked to stop, 2 a setting to mend, 3 something around it, 4 another program, 1 itself.
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m orchestrator",
        description="Decide which device serves which part of a model, and carry runs through.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--broker", help="mqtt://orchestrator:secret@host:port")
    parser.add_argument("--authority", help="certificate of who vouches for broker and store")
    parser.add_argument("--store", help="where the model store is, like http://127.0.0.1:8080")
    parser.add_argument("--store-base", help="the store's address as devices reach it")
    parser.add_argument(
        "--home", help="the home; the journal is in its orchestrator/ (~/.crowdpipe)"
    )
    parser.add_argument("--hold-nbytes", help="bound of frames not stored yet, in bytes")
    parser.add_argument("--journal-limit-nbytes", help="bound of the journal, in bytes")
    parser.add_argument("--control-root", help="first levels of JSON topics (crowdpipe/v1)")
    parser.add_argument("--data-root", help="first levels of data topics (crowdpipe-data/v1)")
    parser.add_argument(
        "--option", action="append", metavar="NAME=VALUE", help="a number the machine decides by"
    )
    parser.add_argument("--log", choices=LOG_LEVELS, help="how much to say (info)")
    parser.add_argument(
        "--validate", action="store_true", help="check every invariant after every event (slow)"
    )
    parser.add_argument("--config", type=Path, help="the settings file")
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """The process's exit status."""
    flags = vars(parser().parse_args(arguments))
    validated = flags.pop("validate")
    config = flags.pop("config") or default_file(os.environ)
    try:
        settings = read_settings(flags, os.environ, config)
        log_to_stderr(settings.log)
        orchestrator = Orchestrator(settings, validated=validated)
        _end_on_signals(orchestrator)
        orchestrator.run_forever()
    except CrowdpipeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _end_on_signals(orchestrator: Orchestrator) -> None:
    """SIGTERM and SIGINT ask for an orderly end once; a second one ends at once."""

    def asked(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        orchestrator.ask_to_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)


if __name__ == "__main__":
    sys.exit(main())
