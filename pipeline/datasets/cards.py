"""Descriptions of a data set for other tools: a data card for Hugging Face, and a Croissant file."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import manifests
from pipeline.datasets.paths import MANIFEST_FILE, ROOTS_FILE
from pipeline.datasets.roots import Roots
from pipeline.recipes.levels import shown_levels
from pipeline.recipes.schema import Recipe

CARD_FILE, CROISSANT_FILE = "README.md", "croissant.json"

_DIGEST_LINE = re.compile(r"<!-- written by robustshards, sha256 of the above: ([0-9a-f]{64}) -->\n")
"""The last line of a card. Its digest shows whether somebody has edited the card."""

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10**7, "1M<n<10M"))
"""Size categories of Hugging Face: exclusive upper limit -> name."""

TAR = "application/x-tar"

_FILES = {
    MANIFEST_FILE: ("manifest", "One row per sample.", "application/x-parquet"),
    ROOTS_FILE: ("roots", "One digest for all images of each condition.", "application/json"),
}
"""Name of a file -> its id, description and format."""

ROOTS = ("pixel_root", "payload_root", "label_root", "source_root")
"""Roots that a Croissant file has as identifiers."""

MAX_FILES = 10_000
"""Most shards that a Croissant file lists with their digests; the manifest has those of all."""

_COLUMN_TYPES = {"string": "sc:Text", "int64": "sc:Integer"}

_CROISSANT_TERMS = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject"),
    *("fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5"),
    *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator"),
    *("source", "subField", "transform"),
)
"""Names that mean the same as in the vocabulary of Croissant."""

_OTHER_TERMS: Mapping[str, Any] = {
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
}

_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    **dict(sorted({**{name: f"cr:{name}" for name in _CROISSANT_TERMS}, **_OTHER_TERMS}.items())),
}
"""The JSON-LD context of Croissant 1.1."""


def card(recipe: Recipe, samples: int, failed: int) -> str:
    """Return the data card (README.md), with one Hugging Face configuration per transform.

    ``samples`` counts the ``failed`` ones, too.
    """
    size = next((words for limit, words in SIZES if samples < limit), "10M<n<100M")
    head = ["---", f"pretty_name: {json.dumps(recipe.title or recipe.name)}"]
    head += [] if recipe.is_mirror else ["task_categories:", "- image-classification"]
    head += ["tags:", "- robustness"] + ([] if recipe.is_mirror else ["- webdataset"])
    head += ["size_categories:", f"- {size}", "configs:"]
    transforms = dict.fromkeys(condition.transform for condition in recipe.conditions())
    for transform in transforms:
        head += [f"- config_name: {transform}", "  data_files:", "  - split: test"]
        head.append(f"    path: {f'{transform}/**' if recipe.is_mirror else f'shards/{transform}/*/*.tar'}")
    prepared = ", ".join(f"{name} {value:g}" for name, value in recipe.prepare.steps) or "nothing"
    rows = [
        ("Transforms", ", ".join(transforms)),
        ("Levels", shown_levels(recipe.transforms.levels)),
        ("Profile", recipe.profile),
        (
            "Samples",
            f"{samples:,}" + (f"; {failed:,} failed (columns `status` and `error` of the manifest)" if failed else ""),
        ),
        ("Preparation", f"{prepared}; decoder {recipe.prepare.decoder}, resize {recipe.prepare.resize}"),
        ("Payload", str(recipe.encoder)),
        ("Seed", str(recipe.seed)),
        ("Libraries", ", ".join(f"{name} {version}" for name, version in recipe.software.items())),
    ]
    body = [f"# {recipe.name}", "", recipe.title, "", "| | |", "|---|---|"]
    body += [f"| {what} | {words} |" for what, words in rows]
    where = "WebDataset shards are in `shards/<transform>/<level>/`."
    if recipe.is_mirror:
        where = "Images are in `<transform>/<level>/`, under their paths in the source."
    body += ["", f"{where} `manifest.parquet` has one row per sample."]
    if recipe.attack:
        body += ["Made by `robustshards attack`: `recipe.toml` has the attacked model, the attacks and their budgets."]
    elif recipe.is_mirror:
        body += ["To make these images again: `robustshards mirror FOLDER --recipe recipe.toml --out ...`."]
    else:
        body += ["To build this data set again: `robustshards build recipe.toml --source ... --out ...`."]
    body += ["The terms of use of the source images also apply to this data set."]
    if cited := recipe.family.citation:
        body += ["", "Please cite:", "", "```bibtex", cited, "```"]
    text = "\n".join([*head, "---", "", *body, "", ""])
    return f"{text}<!-- written by robustshards, sha256 of the above: {_digest(text)} -->\n"


def is_unedited_card(text: str) -> bool:
    """Return whether a text is an unedited card from :func:`card`, of any data set."""
    head, comment, rest = text.rpartition("<!-- written by robustshards")
    found = _DIGEST_LINE.fullmatch(comment + rest)
    return found is not None and found[1] == _digest(head)


def croissant(recipe: Recipe, files: Mapping[str, str], roots: Roots) -> str:
    """Return the Croissant description (JSON-LD) of the files and of the manifest's columns.

    Args:
        recipe: Recipe of the data set.
        files: Path -> sha256 of the manifest, of ``roots.json`` and of shards.
        roots: Roots of the data set.
    """
    about = {
        "name": recipe.name,
        "description": recipe.title or recipe.name,
        "citeAs": recipe.family.citation,
        "version": recipe.software.get("robustshards", "0.0.0"),
    }
    return _croissant(about, files, {name: getattr(roots, name) for name in ROOTS})


def croissant_manifest_digest(text: str) -> str:
    """Return the sha256 of the manifest in a Croissant description, or "" if the description was edited."""
    try:
        content = json.loads(text)
        about = {name: content[name] for name in ("name", "description", "citeAs", "version")}
        files = {each["contentUrl"]: str(each["sha256"]) for each in content["distribution"] if "sha256" in each}
        roots = {each["propertyID"]: each["value"] for each in content["identifier"]}
        return files[MANIFEST_FILE] if _croissant(about, files, roots) == text else ""
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return ""


def _croissant(about: Mapping[str, Any], files: Mapping[str, str], roots: Mapping[str, str | None]) -> str:
    """Return a Croissant description. ``about``, ``files`` and ``roots`` differ between data sets."""
    description = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": about["name"],
        "description": about["description"],
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "citeAs": about["citeAs"],
        "license": "the terms of the photographs it was made from",
        "url": MANIFEST_FILE,
        "version": about["version"],
        "identifier": [
            {"@type": "sc:PropertyValue", "propertyID": name, "value": value} for name, value in roots.items() if value
        ],
        "distribution": [
            *(_file(name, sha256) for name, sha256 in files.items()),
            {
                "@type": "cr:FileSet",
                "@id": "shards",
                "name": "shards",
                "description": "WebDataset shards, by transform and level.",
                "encodingFormat": TAR,
                "includes": "shards/*/*/*.tar",
            },
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "samples",
                "name": "samples",
                "description": "The rows of the manifest.",
                "key": {"@id": "samples/key"},
                "field": [_field(column) for column in manifests.SCHEMA],
            }
        ],
    }
    return json.dumps(description, indent=1) + "\n"


def _file(name: str, sha256: str) -> dict[str, str]:
    """Return the description of a file: the manifest, the roots, or a shard."""
    id_, what, kind = _FILES.get(name, (name, "A WebDataset shard.", TAR))
    return {
        "@type": "cr:FileObject",
        "@id": id_,
        "name": id_,
        "description": what,
        "contentUrl": name,
        "encodingFormat": kind,
        "sha256": sha256,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _field(column: Any) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"samples/{column.name}",
        "name": f"samples/{column.name}",
        "description": f"Column {column.name} of the manifest.",
        "dataType": _COLUMN_TYPES[str(column.type)],
        "source": {"fileObject": {"@id": "manifest"}, "extract": {"column": column.name}},
    }
