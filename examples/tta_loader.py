"""A ``get_test_loader`` for the code base mariodoebler/test-time-adaptation that reads a data set of robustshards.

Replace the function of this name in ``datasets/data_loading.py`` by it; ``data_root_dir`` is the data set.
"""

import random

from torch.utils.data import DataLoader

import robustshards as rs
from robustshards.torch import Stream


class Views:
    """The transform of a loader: the same image several times, each prepared anew."""

    def __init__(self, preprocess, n_views):
        self.preprocess, self.n_views = preprocess, n_views

    def __call__(self, image):
        """Return the views."""
        return [self.preprocess(image) for _ in range(self.n_views)]


class Domains(DataLoader):
    """A loader whose batches are images, labels and the names of their domains."""

    def __iter__(self):
        """Yield the batches."""
        for images, labels, columns in super().__iter__():
            yield images, labels, columns["transform"]


def get_test_loader(
    setting,
    adaptation,
    dataset_name,
    preprocess,
    data_root_dir,
    domain_name,
    domain_names_all,
    severity,
    num_examples,
    rng_seed,
    use_clip=False,
    n_views=1,
    delta_dirichlet=0.0,
    batch_size=128,
    shuffle=False,
    workers=4,
):
    """Return the loader of a domain, or of all domains if ``setting`` has mixed_domains.

    The order is random, of ``rng_seed``; with correlated in ``setting``, images are sorted by label or, for a
    ``delta_dirichlet`` above 0, in chunks. ``num_examples`` above 0 is the size of a random subset of the images.
    """
    names = domain_names_all if "mixed_domains" in setting else [domain_name]
    protocol, parameters = "continual", {}
    if "correlated" in setting:
        protocol, parameters = ("dirichlet", {"delta": delta_dirichlet}) if delta_dirichlet > 0 else ("sorted", {})
    ids = None
    if num_examples > 0:
        rows = rs.open(data_root_dir).rows({"transform": names[:1], "level": [severity], "status": ["ok"]})
        every = sorted({row.source_id for row in rows})
        ids = random.Random(rng_seed).sample(every, min(num_examples, len(every)))
    views = Views(preprocess, n_views) if preprocess and n_views > 1 else preprocess
    stream = Stream(
        data_root_dir,
        [[(name, severity) for name in names]],
        protocol=protocol,
        batch_size=batch_size,
        shuffle=rng_seed,
        ids=ids,
        input_transform=views,
        as_="pil" if preprocess else "float",
        columns=["transform"],
        **parameters,
    )
    stream.transform = preprocess
    return Domains(stream, batch_size=None, num_workers=workers)
