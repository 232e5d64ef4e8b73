"""`crowdpipe device add|remove|forget`: which phones may connect, and which are known."""

from __future__ import annotations

from typing import Annotated

import typer

from crowdpipe.cli.options import Home, Json, desk_home_of, example

Name = Annotated[str, typer.Argument(metavar="NAME", help="1 to 32 of a-z, 0-9 and '-'.")]


def build() -> typer.Typer:
    group = typer.Typer(
        name="device",
        rich_markup_mode=None,
        no_args_is_help=True,
        help="Add, remove and forget phones.",
        epilog=example("crowdpipe device add pixel-7"),
    )
    group.command("add", epilog=example("crowdpipe device add pixel-7"))(add)
    group.command("remove", epilog=example("crowdpipe device remove pixel-7"))(remove)
    group.command("forget", epilog=example("crowdpipe device forget pixel-7"))(forget)
    return group


def add(name: Name, home: Home = None, as_json: Json = False) -> None:
    """Give a phone a name and a secret, and print the line to type on it.

    Adding it again changes nothing and prints the line again.
    """
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.cli.phone import agent_line, say_if_only_here
    from crowdpipe.home import desk_key_of
    from crowdpipe.serving.users import add_user

    folder = desk_home_of(home)
    url = add_user(folder, name, "device")
    line = None if url is None else agent_line(url, desk_key_of(folder))
    if as_json:
        print_json({"device": name, "broker": str(url) if url else None, "line": line})
        return
    if url is None:
        say(
            f"{name} may connect. Nothing is served yet: start `crowdpipe up --lan`, then type "
            f"`crowdpipe device add {name}` again to see the line for the phone."
        )
        return
    say(f"{name} may connect. Type this on it (the line contains its secret):")
    print(line)
    say_if_only_here(url.host, "phones")


def remove(name: Name, home: Home = None) -> None:
    """Revoke a phone's secret; a running broker does not accept it any longer."""
    from crowdpipe.cli.console import say
    from crowdpipe.serving.users import remove_user

    remove_user(desk_home_of(home), name, "device")
    say(f"{name} can no longer connect.")


def forget(name: Name, home: Home = None) -> None:
    """Clear all that is known of a phone; it may still connect, and is then met as a new one.

    Phones that were not heard of for long are forgotten by themselves (`crowdpipe up --help`).
    """
    from crowdpipe.cli.console import say
    from crowdpipe.serving.forget_requests import ask_to_forget, said_status

    folder = desk_home_of(home)
    status = said_status(folder, name)
    ask_to_forget(folder, name)
    if status in (None, "offline"):
        say(f"{name} is forgotten.")
        return
    say(
        f"{name} is forgotten, but said last that it is {status}: if it is still there, it comes "
        f"back by itself. To keep it out: crowdpipe device remove {name}"
    )
