"""`crowdpipe user add|remove|list`: people and programs that may run models from elsewhere."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from crowdpipe.cli.options import Home, Json, desk_home_of, example

Name = Annotated[str, typer.Argument(metavar="NAME", help="1 to 32 of a-z, 0-9 and '-'.")]


def build() -> typer.Typer:
    group = typer.Typer(
        name="user",
        rich_markup_mode=None,
        no_args_is_help=True,
        help="Add and remove people and programs that run models.",
        epilog=example("crowdpipe user add ann"),
    )
    group.command("add", epilog=example("crowdpipe user add ann"))(add)
    group.command("remove", epilog=example("crowdpipe user remove ann"))(remove)
    group.command("list", epilog=example("crowdpipe user list"))(list_)
    return group


def add(name: Name, home: Home = None, as_json: Json = False) -> None:
    """Give a person or program a name and a secret, and print the address to use.

    Each lists, collects and cancels its own runs alone; how far runs are, all may watch. Adding it
    again changes nothing and prints the address again.
    """
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.cli.phone import say_if_only_here
    from crowdpipe.serving.users import add_user

    url = add_user(desk_home_of(home), name, "client")
    if as_json:
        print_json({"user": name, "broker": str(url) if url else None})
        return
    if url is None:
        say(
            f"{name} may run models. Nothing is served yet: start `crowdpipe up`, then type "
            f"`crowdpipe user add {name}` again to see the address."
        )
        return
    say(f"{name} may run models. Set this where it runs (the address contains its secret):")
    print(f"export CROWDPIPE_BROKER={shlex.quote(str(url))}")
    say_if_only_here(url.host, "programs elsewhere")


def remove(name: Name, home: Home = None) -> None:
    """Revoke the secret; a running broker does not accept it any longer."""
    from crowdpipe.cli.console import say
    from crowdpipe.serving.users import remove_user

    remove_user(desk_home_of(home), name, "client")
    say(f"{name} can no longer connect.")


def list_(home: Home = None, as_json: Json = False) -> None:
    """Who may run models."""
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.serving.users import names_of

    names = names_of(desk_home_of(home), "client")
    if as_json:
        print_json(names)
        return
    for name in names:
        print(name)
    if not names:
        say("Nobody was added yet. Commands on this machine need no user of their own.")
