"""Folders of files with image names, and their listing."""

from pathlib import Path

from pipeline.sources.kinds import open_source


def make(root: Path, *names: str) -> Path:
    """Write files that contain their own name, and return their folder."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return root


def listed(root: Path) -> list[tuple[str, int, str]]:
    """Return id, label and class name of each image."""
    return [(image.id, image.label, image.class_name) for image in open_source("imagefolder", str(root))]
