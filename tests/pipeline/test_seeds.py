from hypothesis import given
from hypothesis import strategies as st

from pipeline.transforms.seeds import SEED_LIMIT, sample_seed

FIELDS = st.tuples(st.integers(0, SEED_LIMIT - 1), st.text(max_size=20), st.text(max_size=10), st.integers(0, 5))


def test_a_known_seed_is_unchanged() -> None:
    """The seeds are part of the format: changing them would change every shard."""
    assert sample_seed(0, "n01440764/ILSVRC2012_val_00000293", "fog", 3) == 0x648635868D28C5E2391B70A391EB2463


@given(FIELDS, FIELDS)
def test_different_fields_give_different_seeds(
    one: tuple[int, str, str, int], other: tuple[int, str, str, int]
) -> None:
    assert (sample_seed(*one) == sample_seed(*other)) == (one == other)


def test_seeds_depend_on_the_boundaries_of_fields() -> None:
    assert sample_seed(0, "ab", "c", 1) != sample_seed(0, "a", "bc", 1)
    assert sample_seed(0, "a", "b1", 1) != sample_seed(0, "a", "b", 11)


def test_seeds_use_all_128_bits() -> None:
    seeds = [sample_seed(seed, "image", "fog", 1) for seed in range(2000)]
    for bit in range(0, 128, 7):
        assert 850 < sum(seed >> bit & 1 for seed in seeds) < 1150
