import hashlib
import tarfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.datasets.shards import MODE, MTIME, OWNER, ShardWriter, member_header

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="/"), min_size=1, max_size=150
)
NAMES = NAMES.filter(lambda name: name not in (".", ".."))


def write(path: Path, members: dict[str, bytes]) -> tuple[dict[str, int], str, int]:
    writer = ShardWriter(path)
    half = len(members) // 2
    names = list(members)
    offsets = [at for part in (names[:half], names[half:]) for at in writer.add({name: members[name] for name in part})]
    return dict(zip(names, offsets, strict=True)), *writer.finish()


@given(st.dictionaries(NAMES, st.binary(max_size=2000), max_size=8))
@settings(max_examples=40)
def test_members_are_at_the_returned_offsets(tmp_path_factory: object, members: dict[str, bytes]) -> None:
    path = tmp_path_factory.mktemp("shard") / "x.tar"  # type: ignore[attr-defined]
    offsets, sha256, size = write(path, members)
    data = path.read_bytes()
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (sha256, size)
    for name, content in members.items():
        assert data[offsets[name] : offsets[name] + len(content)] == content
    with tarfile.open(path) as tar:
        found = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
        assert found == members
        assert list(found) == list(members)


@given(NAMES, st.integers(0, 8**11 - 1))
def test_headers_equal_those_of_tarfile(name: str, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode, member.uname, member.gname = size, MTIME, MODE, OWNER, OWNER
    assert member_header(name, size) == member.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def test_tar_bytes_are_stable(tmp_path: Path) -> None:
    """The tar layout is part of the format: a change would change every shard."""
    _, sha256, size = write(tmp_path / "x.tar", {"a/b-fog-1.jpg": b"jpeg", "a/b-fog-1.cls": b"0"})
    assert (sha256, size) == ("4fbbed5256e279ab474809dbc608b145b7fdef0e4490503c6c57a0fa3e0cb8b1", 10240)


def test_a_large_shard_is_flushed_while_it_grows(tmp_path: Path) -> None:
    path, pieces = tmp_path / "x.tar", [bytes([number]) * 9728 for number in range(250)]
    writer, on_disk = ShardWriter(path), {}
    for number, piece in enumerate(pieces, 1):
        writer.add({f"{number}.npy": piece})
        on_disk[number * 10_240] = path.stat().st_size  # 19 blocks and a header
    for flushed in (103 * 10_240, 205 * 10_240):  # the first sizes from one and from two megabytes on
        assert on_disk[flushed] == flushed
    sha256, size = writer.finish()
    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size) == (sha256, size)
    with tarfile.open(path) as tar:
        assert [tar.extractfile(member).read() for member in tar] == pieces  # type: ignore[union-attr]
