"""``Augmentation``: equal draws for equal keys, frequencies, kinds of images, and the refusal of benchmarks."""

import multiprocessing
import pickle
import threading
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.stats import chisquare

import corruptions
from corruptions import augmentation
from corruptions.augmentation import ACKNOWLEDGEMENT, Augmentation
from tests.factories.images import noise

NOISE = ["speckle_noise"]
KEYS = [f"n01440764/image_{number}" for number in range(12)]


def digests(augment: Augmentation, keys: list[str], epoch: int = 0) -> list[str]:
    return [sha256(augment(noise(32, 32), key, epoch).tobytes()).hexdigest() for key in keys]


def put_digests(augment: Augmentation, keys: list[str], queue) -> None:
    queue.put((keys[0], digests(augment, keys)))


def put_unkeyed(augment: Augmentation, queue) -> None:
    queue.put([sha256(augment(noise(32, 32)).tobytes()).hexdigest() for _ in range(6)])


def run(target, jobs: list[tuple[Any, ...]], method: str = "fork") -> list[Any]:
    """Return what one process per job puts into a queue."""
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    processes = [context.Process(target=target, args=(*job, queue)) for job in jobs]
    for process in processes:
        process.start()
    results = [queue.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    return results


def drawn(augment: Augmentation, keys: range) -> Counter[tuple[str, int]]:
    """Count what is drawn for keys, with the corruption itself replaced."""
    counts: Counter[tuple[str, int]] = Counter()

    def corrupt(image, name, severity, **options):
        counts[name, severity] += 1
        return image

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corruptions, "corrupt", corrupt)
        image = noise(16, 16)
        for key in keys:
            augment(image, key)
    return counts


def test_equal_keys_give_equal_images_in_one_and_four_processes() -> None:
    augment = Augmentation(probability=0.8, seed=5)
    expected = digests(augment, KEYS)
    assert len(set(expected)) > 6
    parts = dict(run(put_digests, [(augment, KEYS[start : start + 3]) for start in range(0, 12, 3)]))
    assert [each for start in range(0, 12, 3) for each in parts[KEYS[start]]] == expected


def test_a_spawned_process_unpickles_it_and_gives_equal_images() -> None:
    augment = Augmentation(("spatter", "saturate"), 2, seed=7)
    ((_, found),) = run(put_digests, [(augment, KEYS[:4])], "spawn")
    assert found == digests(augment, KEYS[:4])


def test_threads_give_equal_images() -> None:
    augment = Augmentation(probability=1)
    expected, found = digests(augment, KEYS), {}
    threads = [threading.Thread(target=lambda i=i: found.update({i: digests(augment, KEYS)})) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [expected] * 4


def test_another_epoch_seed_or_key_gives_others() -> None:
    augment = Augmentation(NOISE, probability=1)
    first = digests(augment, KEYS)
    assert not set(first) & set(digests(augment, KEYS, epoch=1))
    assert not set(first) & set(digests(Augmentation(NOISE, probability=1, seed=1), KEYS))
    assert len(set(first)) == len(KEYS)


def test_a_number_and_its_digits_are_the_same_key() -> None:
    augment = Augmentation(probability=1)
    assert np.array_equal(augment(noise(32, 32), 17), augment(noise(32, 32), "17"))
    assert np.array_equal(augment(noise(32, 32), np.int64(17)), augment(noise(32, 32), 17))


def test_without_a_key_a_single_process_repeats_its_images_and_processes_differ() -> None:
    first, second = (Augmentation(NOISE, probability=1, seed=9) for _ in range(2))
    images = [first(noise(32, 32)) for _ in range(5)]
    assert all(np.array_equal(image, second(noise(32, 32))) for image in images)
    assert len({image.tobytes() for image in images}) == 5
    one, other = run(put_unkeyed, [(first,), (first,)])
    assert not set(one) & set(other)


def test_pickling_keeps_settings_and_count() -> None:
    augment = Augmentation("noise", (1, 5), 0.9, "cifar", 4, pair=True, acknowledge=ACKNOWLEDGEMENT)
    augment(noise(32, 32))
    copy = pickle.loads(pickle.dumps(augment))
    assert vars(copy) == vars(augment)
    assert np.array_equal(copy(noise(32, 32))[1], augment(noise(32, 32))[1])


def test_names_and_severities_are_equally_frequent() -> None:
    counts = drawn(Augmentation(probability=1), range(10_000))
    extra = corruptions.names("extra")
    assert len(counts) == 12
    assert chisquare([sum(counts[name, level] for level in (1, 2, 3)) for name in extra]).pvalue > 1e-4
    assert chisquare([sum(counts[name, level] for name in extra) for level in (1, 2, 3)]).pvalue > 1e-4
    assert chisquare(list(counts.values())).pvalue > 1e-4


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_the_given_fraction_of_images_is_corrupted(probability: float) -> None:
    count = drawn(Augmentation(probability=probability), range(10_000)).total()
    assert abs(count - 10_000 * probability) <= 4 * (10_000 * probability * (1 - probability)) ** 0.5


def test_severity_0_leaves_images_unchanged() -> None:
    augment = Augmentation(severities=(0, 2), probability=1)
    unchanged = sum(np.array_equal(augment(noise(32, 32), key), noise(32, 32)) for key in range(200))
    assert 70 <= unchanged <= 130
    assert np.array_equal(Augmentation(severities=0, probability=1)(noise(32, 32), "a"), noise(32, 32))


def test_result_is_what_corrupt_gives_for_one_name_and_severity() -> None:
    augment = Augmentation(["spatter"], 2, 1, "cifar", 3)
    seed = augmentation._numbers(3, 1, "key")[3]
    expected = corruptions.corrupt(noise(32, 32), "spatter", 2, profile="cifar", seed=seed)
    assert np.array_equal(augment(noise(32, 32), "key", 1), expected)


def test_bytes_of_the_draws_are_fixed() -> None:
    words = (13144557828357800416, 9348644473483212385, 15713513462217891168)
    assert augmentation._numbers(1, 2, "a/b") == (*words, 240862238734730352455230973620864326543)


@pytest.mark.parametrize("probability", [0, 1])
def test_inputs_are_neither_changed_nor_returned(probability: float) -> None:
    image = noise(32, 32)
    result = Augmentation(probability=probability)(image, 1)
    assert np.array_equal(image, noise(32, 32))
    assert not np.shares_memory(result, image)


@pytest.mark.parametrize("probability", [0, 1])
def test_pil_images_give_pil_images_of_the_same_pixels(probability: float) -> None:
    augment = Augmentation(probability=probability)
    for mode in ("RGB", "L"):
        image = Image.fromarray(noise(32, 32)).convert(mode)
        result = augment(image, "key")
        assert isinstance(result, Image.Image)
        assert result.mode == "RGB"
        assert np.array_equal(np.asarray(result), augment(np.asarray(image), "key"))


def test_pair_returns_the_clean_image_and_the_augmented_one() -> None:
    single, pair = Augmentation(probability=1), Augmentation(probability=1, pair=True)
    clean, changed = pair(noise(32, 32), 4)
    assert np.array_equal(clean, noise(32, 32))
    assert np.array_equal(changed, single(noise(32, 32), 4))
    assert not np.array_equal(clean, changed)
    grey = Image.fromarray(noise(32, 32)).convert("L")
    clean, changed = pair(grey, 4)
    assert clean.mode == changed.mode == "RGB"
    assert np.array_equal(np.asarray(clean), np.asarray(grey.convert("RGB")))


@pytest.mark.parametrize(
    ("image", "error", "text"),
    [
        (np.zeros((15, 32, 3), np.uint8), ValueError, "at least 16 x 16, not 15 x 32"),
        (np.zeros((32, 32, 4), np.uint8), ValueError, r"not of shape \(32, 32, 4\)"),
        (np.zeros((32, 32, 3), np.float32), TypeError, "must be uint8"),
        (Image.new("RGBA", (32, 32)), ValueError, r"RGB or L, not RGBA; use image.convert\('RGB'\)"),
        (Image.new("P", (32, 32)), ValueError, "not P"),
        ("image.png", TypeError, "not str"),
    ],
)
@pytest.mark.parametrize("probability", [0, 1])
def test_invalid_images_are_refused_whatever_is_drawn(image, error, text, probability) -> None:
    with pytest.raises(error, match=text):
        Augmentation(probability=probability)(image, "key")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"names": "fogs"}, ValueError, "unknown group 'fogs'.*extra.*or pass the name"),
        ({"names": ["spater"]}, ValueError, "unknown corruption 'spater'"),
        ({"names": []}, ValueError, "must not be empty"),
        ({"names": {"spatter", "saturate"}}, TypeError, "a sequence of names, not set"),
        ({"names": None}, TypeError, "a sequence of names, not NoneType"),
        ({"severities": ()}, ValueError, "must not be empty"),
        ({"severities": (1, 6)}, ValueError, "severity must be 1..5, not 6"),
        ({"severities": (1.5,)}, TypeError, "severity must be an integer, not 1.5"),
        ({"probability": 1.1}, ValueError, "probability must be 0..1, not 1.1"),
        ({"probability": float("nan")}, ValueError, "probability must be 0..1, not nan"),
        ({"probability": "half"}, TypeError, "probability must be a number 0..1, not 'half'"),
        ({"profile": "huge"}, ValueError, "unknown profile 'huge'"),
        ({"seed": -1}, ValueError, "seed must be at least 0, not -1"),
        ({"seed": True}, TypeError, "seed must be an integer, not True"),
        ({"names": ["CoarseDropout"], "severities": 2}, ValueError, "severity must be 1, the only one, not"),
        ({"acknowledge": "yes"}, ValueError, "'I train on the benchmark' or empty, not 'yes'"),
    ],
)
def test_invalid_settings_are_refused_at_once(arguments, error, text) -> None:
    with pytest.raises(error, match=text):
        Augmentation(**arguments)


@pytest.mark.parametrize(
    ("key", "epoch", "error", "text"),
    [
        (1.5, 0, TypeError, r"key must be a string or an integer, not 1.5; use str\(key\)"),
        (b"a", 0, TypeError, "not b'a'"),
        (Path("a.jpg"), 0, TypeError, "not PosixPath"),
        (True, 0, TypeError, "not True"),
        ("a", -1, ValueError, "epoch must be at least 0"),
    ],
)
def test_invalid_keys_and_epochs_are_refused(key, epoch, error, text) -> None:
    with pytest.raises(error, match=text):
        Augmentation()(noise(32, 32), key, epoch)


def test_one_name_is_a_corruption_and_not_a_group() -> None:
    assert Augmentation("spatter").names == ("spatter",)
    assert Augmentation("CoarseDropout", 1).names == ("CoarseDropout",)
    with pytest.raises(ValueError, match="fog belongs to a benchmark"):
        Augmentation("fog")


@pytest.mark.parametrize("names", [("spatter", "fog"), "benchmark", "all", "syn2nat", "blur", "laion-c"])
def test_benchmark_names_need_the_sentence(names) -> None:
    severities = 1 if names == "syn2nat" else 3
    with pytest.raises(ValueError, match=r"belongs? to a benchmark.*ICLR 2019.*acknowledge='I train on the benchmark'"):
        Augmentation(names, severities)
    Augmentation(names, severities, acknowledge="I train on the benchmark")
