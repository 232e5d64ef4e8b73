import pytest

from crowdpipe.item_error import of_item
from wire.errors import InvalidInput, TimedOut


@pytest.mark.parametrize(
    ("said", "count", "told"),
    [
        ("'x' is missing", 6, "item 3: 'x' is missing"),
        ("item 3: 'x' is missing", 6, "item 3: 'x' is missing"),
        ("item 3 waited 60 s", 6, "item 3 waited 60 s"),
        ("item 31: 'x' is missing", 6, "item 3: item 31: 'x' is missing"),
        ("'x' is missing", 1, "'x' is missing"),
        ("item 3: 'x' is missing", 1, "'x' is missing"),
        ("item 3 waited 60 s", 1, "item 3 waited 60 s"),
    ],
)
def test_an_items_error_names_it_once_and_only_among_several(
    said: str, count: int, told: str
) -> None:
    error = of_item(InvalidInput(said), 3, count)
    assert str(error) == told
    assert isinstance(error, InvalidInput)


def test_the_type_of_an_items_error_stays() -> None:
    assert type(of_item(TimedOut("too long"), 0, 2)) is TimedOut
