"""Values of one place stand nearer to it than to the next one."""

import pytest

from wifu.figures import along


@pytest.mark.parametrize("count", [2, 3, 5, 10])
@pytest.mark.parametrize("places", [[1.0, 2.0, 3.0], [0.1, 1.0, 100.0], [5.0, 5.1]])
def test_marks_beside_each_other_leave_the_next_place_alone(
    count: int, places: list[float]
) -> None:
    gap = min(abs(a - b) for a in places for b in places if a != b)
    asides = [along.aside(places, n, count, 1.0) for n in range(count)]
    assert asides == sorted(asides) and sum(asides) == pytest.approx(0.0)
    assert asides[-1] - asides[0] < 0.2 * gap
