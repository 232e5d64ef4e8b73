"""What others wrote is shown on one line, short, and commands no terminal."""

from hypothesis import given
from hypothesis import strategies as st

from crowdpipe.cli.excerpts import MOST_CHARACTERS, show_list, show_text
from crowdpipe.cli.watch import shortened


@given(st.text(max_size=300))
def test_it_is_one_printable_line_of_bounded_length(text: str) -> None:
    shown = show_text(text)
    assert len(shown) <= MOST_CHARACTERS
    assert shown.isprintable()


def test_what_is_short_and_printable_stays_as_it_is() -> None:
    assert show_text("needs 24.3 MiB – über 16") == "needs 24.3 MiB – über 16"


def test_what_clears_a_screen_does_not() -> None:
    assert show_text("a\x1b[2Jb\nc") == "a�[2Jb�c"


def test_a_list_is_its_first_few_and_a_count() -> None:
    assert show_list(["a", "b"], 2) == ["a", "b"]
    assert show_list(["a", "b", "c", "d"], 2) == ["a", "b", "and 2 more"]


def test_a_message_of_megabytes_is_a_line() -> None:
    assert len(shortened("x" * 4_000_000)) == 4000
    assert shortened(f'{{"blob": "{"ab" * 32}"}}') == '{"blob": "abababab…"}'
