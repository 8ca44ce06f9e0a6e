"""Pack this project's code, with or without its libraries, for Spark workers on other machines."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[__name__.count(".")]
"""The folder of our packages, under the names by which they import each other."""
_PACKAGES = tuple(Path(*__name__.split(".")[:-2], name) for name in ("messages", "spark"))
"""The packages that workers import, below ROOT. The wheel has them below another package."""
LIBRARIES = ("attrs", "backports.zstd", "crc32c", "cramjam", "msgspec", "pyarrow", "thespian")
"""The distributions that these packages import in a worker, besides Spark."""


def sources_zip(file: Path) -> Path:
    """Write our code into a zip archive, for workers whose Python has the libraries."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        for source, name in _sources():
            zipped.write(source, name)
    return file


def bundle(file: Path) -> Path:
    """Write our code and the libraries into a tar.gz archive (50 MB, five seconds), for `spark-submit --archives`.

    Workers need the same Python version and the same kind of machine (system and processor) as this process.

    Raises:
        OSError: The archive cannot be written.
    """
    part = file.with_name(file.name + ".part")
    with tarfile.open(part, "w:gz", compresslevel=1) as packed:
        for source, name in (*_sources(), *_library_files()):
            packed.add(source, name)
    part.replace(file)
    return file


def _sources() -> Iterator[tuple[Path, Path]]:
    """Yield each of our files, and its path in an archive."""
    above = [source for folder in _PACKAGES[0].parents[:-1] for source in (ROOT / folder).glob("*.py")]
    for source in (*above, *(each for package in _PACKAGES for each in sorted((ROOT / package).rglob("*")))):
        if source.is_file() and source.suffix != ".pyc":
            yield source, source.relative_to(ROOT)


def _library_files() -> Iterator[tuple[Path, Path]]:
    from importlib.metadata import distribution  # slow, and needed for a bundle only

    for library in LIBRARIES:
        for file in distribution(library).files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                yield Path(str(file.locate())), Path(file)
