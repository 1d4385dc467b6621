"""The fewest choices that are as good as the best at every batch, and the table that Python and C++ read."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.tuning.choosing import TOLERANCE, choose
from fib_rmsnorm.tuning.tunable import Choice, render_table
from support.tunable_solution import find_choice


def parameters(threads: int) -> tuple[tuple[str, int], ...]:
    return (("threads", threads),)


A, B, C = map(parameters, (1, 2, 3))


SHAPE = {"hidden": 4096, "itemsize": 2}


def chosen(choices, batch):
    return [choice.parameters for choice in choices if choice.min_batch <= batch][-1]


@pytest.mark.parametrize(
    ("latencies", "choices"),
    [
        ({1: {A: 1.0, B: 1.005}, 8: {A: 2.1, B: 2.0}, 64: {A: 3.0, B: 3.02}}, [(0, 2)]),
        ({512: {A: 1.0, B: 2.0}, 2048: {A: 2.0, B: 1.0}}, [(0, 1), (1025, 2)]),
        ({1: {A: 1.008, B: 1.0, C: 1.004}, 2: {A: 1.0, B: 1.005, C: 1.0}}, [(0, 3)]),
    ],
    ids=["good everywhere", "a border between those that were measured", "of equally far-reaching ones the faster"],
)
def test_the_fewest_choices_that_are_as_good(latencies, choices):
    assert [(each.min_batch, each.parameters["threads"]) for each in choose(SHAPE, [latencies])] == choices


def test_models_that_share_a_table_lose_least_where_they_lose_most():
    """LayerNorm in CUDA at 512 rows, as it was measured: A is 2.7% behind on one GPU, B 1.3% on the other."""
    first, second = {512: {A: 3.397, B: 3.441, C: 9.0}}, {512: {A: 3.895, B: 3.791, C: 9.0}}
    (choice,) = choose(SHAPE, [first, second])
    assert choice.parameters == {"threads": 2}
    assert choice.evidence == "512: 3441.00 us (+1.3%) / 3791.00 us"


def test_a_batch_or_a_combination_that_one_model_lacks():
    first, second = {1: {A: 2.0, B: 1.0}, 64: {B: 1.0, C: 2.0}}, {1: {A: 1.0}, 64: {A: 3.0}, 4096: {C: 1.0}}
    *_, many = choices = choose(SHAPE, [first, second])
    assert chosen(choices, 1) == {"threads": 1}, "what both have measured, though B is faster on one"
    assert chosen(choices, 64) != {"threads": 3}, "they have measured nothing in common, but C is slow on one"
    assert (many.parameters, many.evidence) == ({"threads": 3}, "4096: - / 1000.00 us")


LATENCIES = st.fixed_dictionaries(dict.fromkeys((A, B, C), st.floats(0.001, 10)))
MODELS = st.lists(st.dictionaries(st.sampled_from([1, 8, 512]), LATENCIES, min_size=1), min_size=1, max_size=3)


@given(MODELS, st.randoms(use_true_random=False))
def test_no_other_choice_would_lose_less_on_the_model_where_it_loses_most(models, random):
    def most_lost(batch, parameters):
        measured = [each[batch] for each in models if batch in each]
        return max(latencies[parameters] / min(latencies.values()) - 1 for latencies in measured)

    choices = choose(SHAPE, models)
    borders = [choice.min_batch for choice in choices]
    assert borders[0] == 0 and borders == sorted(borders)
    for batch in set().union(*models):
        least = min(most_lost(batch, each) for each in (A, B, C))
        assert most_lost(batch, tuple(chosen(choices, batch).items())) <= least + TOLERANCE + 1e-9
    shuffled = choose(SHAPE, random.sample(models, len(models)))
    assert [each.parameters for each in shuffled] == [each.parameters for each in choices]
    assert [each.min_batch for each in shuffled] == borders


CHOICES = [
    Choice({"hidden": 2048, "itemsize": 4}, 0, {"threads": 256, "rows": 1}),
    Choice(SHAPE, 0, {"threads": 512, "rows": 1}, "1: 1.60 us, 32: 2.10 us (+0.5%)"),
    Choice(SHAPE, 65, {"threads": 128, "rows": 2}),
    Choice(SHAPE, 4097, {"threads": 64, "rows": 4}),
]


@pytest.fixture
def find(tmp_path):
    """Find a choice in the table."""
    columns = ["hidden", "itemsize", "multiprocessors", "min_batch", "threads", "rows"]
    (tmp_path / "choices.inc").write_text(render_table("rmsnorm_x_v1", columns, CHOICES, 132))
    return partial(find_choice, tmp_path)


@pytest.mark.parametrize(
    ("batch", "shape", "choice"),
    [
        *((batch, SHAPE, (512, 1)) for batch in (0, 1, 64)),
        *((batch, SHAPE, (128, 2)) for batch in (65, 4096)),
        *((batch, SHAPE, (64, 4)) for batch in (4097, 1 << 40)),
        (1, {"hidden": 2048, "itemsize": 4}, (256, 1)),
        (1, {"hidden": 4096, "itemsize": 4}, None),
        (1, {"hidden": 128, "itemsize": 2}, None),
    ],
)
def test_a_shape_finds_its_choice(find, batch, shape, choice):
    found = find(batch, **shape)
    assert (found and (found["threads"], found["rows"])) == choice


def test_batches_compare_in_rows_per_multiprocessor(find):
    assert [find(batch, 66, **SHAPE)["threads"] for batch in (1, 32, 33, 2048, 2049)] == [512, 512, 128, 128, 64]
