"""The data sets the literature uses: their files, checksums, shapes and where OpenML has them.

No file is part of this package: `load` reads them from a folder or fetches them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.rcv1 import read_rcv1
from colabel.datasets.readers import read_arff, read_csv, read_meka, read_mulan


@dataclass(frozen=True)
class CatalogueEntry:
    """What is known about a data set before it is read.

    Attributes
    ----------
    name : str
        The name `load` takes; also the name of its folder.
    description : str
        A sentence for people.
    n_rows, n_features, n_labels : int
        Its shape. Features are columns of X: identifiers left out, nominal columns encoded.
    label_cardinality : float or None
        Mean labels a row, rounded to three digits; None when labels are not 0/1.
    distinct_label_sets : int
        Number of different label vectors.
    files : tuple of (str, str)
        File names in its folder, and their SHA-256 checksums.
    n_attributes : int or None
        Feature columns of the file, where identifiers and encoding make it differ from n_features.
    openml_id : int or None
        Number of the set on OpenML, where it could be confirmed in public material.
    openml_names : tuple of str
        Names to search on OpenML when there is no number; only a set of the right size is taken.
    drop : tuple of str
        Columns that are identifiers.
    derived_from : str
        The set this one is cut from (`most_common_labels`); empty otherwise.
    repaired : bool
        Whether labels that slipped are put back in place first (`repair_rcv1`).
    """

    name: str
    description: str
    n_rows: int
    n_features: int
    n_labels: int
    label_cardinality: float | None
    distinct_label_sets: int
    files: tuple[tuple[str, str], ...] = ()
    read: Callable[[Path], Dataset] | None = None
    n_attributes: int | None = None
    openml_id: int | None = None
    openml_names: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    derived_from: str = ""
    repaired: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, features and labels."""
        return self.n_rows, self.n_features, self.n_labels


def _mulan(stem: str, drop: tuple[str, ...] = ()) -> Callable[[Path], Dataset]:
    return lambda folder: read_mulan(folder / f"{stem}.arff", drop=drop)


_RCV1_CHECKSUMS = (
    "2d2cc32b10d9539eb09845231c5c06d9d13134a604c77e3f89b5aeadac2eb4cf"
    " 3372465d33ecd10264df67af94797151871ecc5995358495a48726f01d2b6e5a",
    "672f6fff1f2b0d599a2704a199933c65083368cca259042d60ed28ac0ce15986"
    " 71ed7193720d58c9cc7f933790f7d9b0e567dd149da27bc96c8def2135afd794",
    "cff8f3d341bb4720fdd4a8620408ee99ad987c4db05a765b237ac1d460bf5837"
    " cb8b8d72728db6b77b431793fde2e54c68aefe10191bd460d08f1ead1911c1ba",
    "0c31f78e49b5bb9ca5b7d9f0b2d6fe52920398982f03b9db4c77cda0eec0ec22"
    " 1f43a21f8912a5e8cf63c8ecbd98fcea6796aa484ce1d975ccbd794c5e66c084",
    "61849c1d6487124c5ebbe79a85d58803e9ee9fa439d25458d56576b40fd68425"
    " 033ab5140365fe2f14c93ed5d66aa2224ae0eb1e01b3432b852c8484611a811a",
)
# Features, label cardinality, distinct label sets: of the subset, then of its top ten.
_RCV1_FIGURES = (
    (47236, 2.880, 1028, 8393, 1.313, 69),
    (47236, 2.634, 954, 8311, 1.206, 70),
    (47236, 2.614, 939, 8327, 1.219, 74),
    (47229, 2.484, 816, 8324, 1.262, 74),
    (47235, 2.642, 946, 8369, 1.310, 76),
)
# The same of the repaired sets.
_REPAIRED_FIGURES = (
    (47236, 2.895, 811, 8392, 1.554, 56),
    (47236, 2.890, 817, 8299, 1.557, 50),
    (47236, 2.905, 801, 8313, 1.580, 47),
    (47229, 2.908, 785, 8300, 1.582, 53),
    (47235, 2.905, 814, 8358, 1.557, 56),
)


def _rcv1_entries() -> list[CatalogueEntry]:
    """Build the five subsets, and the versions with the ten most common labels."""
    text = "Reuters news stories and their topics"
    entries = []
    for k, (sums, figure) in enumerate(zip(_RCV1_CHECKSUMS, _RCV1_FIGURES, strict=True), start=1):
        files = tuple(zip(("X.npz", "Y.csv.gz"), sums.split(), strict=True))
        full = CatalogueEntry(
            f"rcv1subset{k}",
            f"{text}, subset {k}. In one half of the rows the labels slipped; see repaired=.",
            6000,
            figure[0],
            101,
            *figure[1:3],
            files=files,
            read=read_rcv1,
        )
        top = CatalogueEntry(
            f"rcv1subset{k}_top10",
            f"{text}, subset {k}: the ten most common labels, features in at least four rows.",
            6000,
            figure[3],
            10,
            *figure[4:],
            derived_from=full.name,
        )
        entries += [full, top]
        entries += _repaired(full, top, _REPAIRED_FIGURES[k - 1])
    # The MLCRF paper's rcv1 is subset 5: cardinality and label sets agree with its table.
    return [*entries, replace(top, name="rcv1_top10")]


def _repaired(
    full: CatalogueEntry, top: CatalogueEntry, figures: tuple[int, float, int, int, float, int]
) -> list[CatalogueEntry]:
    """The same sets with the labels put back in place."""
    return [
        replace(
            entry,
            name=f"{entry.name}_repaired",
            description=f"{entry.name} with the labels that slipped put back in place.",
            n_features=n_features,
            label_cardinality=cardinality,
            distinct_label_sets=label_sets,
            files=(),
            read=None,
            derived_from=full.name,
            repaired=True,
        )
        for entry, (n_features, cardinality, label_sets) in (
            (full, figures[:3]),
            (top, figures[3:]),
        )
    ]


_ENTRIES = [
    CatalogueEntry(
        "emotions",
        "Songs and the emotions they arouse (audio features).",
        *(593, 72, 6, 1.868, 27),
        files=(
            ("emotions.arff", "6f2f790047073d1293ac0872c0d55f2dc98b6177802fc96c6b66b309dfee1e4b"),
            ("emotions.xml", "dbce8e6ccbbb2fcbfd9e9edbb230d7ed12692c6e13f59fdbc0161fa9b6cf2dc0"),
        ),
        read=_mulan("emotions"),
        openml_id=40589,
    ),
    CatalogueEntry(
        "yeast",
        "Genes of yeast and their functions (micro-array expressions).",
        *(2417, 103, 14, 4.237, 198),
        files=(
            ("yeast.arff", "55c07a3b6ff885ae338fb6987a1d57f55572b29809922c2822c4885c61230dd7"),
            ("yeast.xml", "c3056cc26444b5158b1588d1b73bec9c45429e10f0957ad085903423cb81f247"),
        ),
        read=_mulan("yeast"),
        openml_id=40597,
    ),
    CatalogueEntry(
        "scene",
        "Photographs and the kinds of scene they show (colour moments).",
        *(2407, 294, 6, 1.074, 15),
        files=(("scene.arff", "39282e8ce59ae7b544bd87cd94cdce8f398e94d3dd5cf44b8d4a81492ae894fa"),),
        read=lambda folder: read_meka(folder / "scene.arff"),
        openml_id=40595,
    ),
    CatalogueEntry(
        "genbase",
        "Proteins and their families (motifs).",
        *(662, 1185, 27, 1.252, 32),
        files=(
            ("genbase.arff", "cb23052a49191e36e9a59cd661e97d79bed2e3f2583030a206692b57bf1e3671"),
            ("genbase.xml", "198e8a1d7070e9603119e02e626cedc589db7577339b307b06f5192047b69eb9"),
        ),
        read=_mulan("genbase", drop=("protein",)),
        n_attributes=1186,
        openml_id=41467,
        drop=("protein",),
    ),
    CatalogueEntry(
        "enron",
        "E-mails of a company and their topics (bag of words).",
        *(1702, 1001, 53, 3.378, 753),
        files=(
            ("enron.arff", "d0889ef0576d4e7b5ec0df3b3e4760e476ac11a6e7d7ddeee4c4a34470dedf97"),
            ("enron.xml", "ed40c92d7f613eed51714912cab10dddc4ce456262137d8fef230d44c7f4457b"),
        ),
        read=_mulan("enron"),
        openml_id=41466,
    ),
    CatalogueEntry(
        "medical",
        "Radiology reports and their diagnosis codes (bag of words).",
        *(978, 1449, 45, 1.245, 94),
        files=(
            ("medical.arff", "ad0630a9a409ed0023c3bb56a0be7610b635c1ca185c6035e3b198b01167aac4"),
            ("medical.xml", "51fa9d5c09e48caff3f0a0c75db1c9aa85944f8e35451f3ad8bd56fc422286ce"),
        ),
        read=_mulan("medical"),
        openml_names=("medical",),
    ),
    CatalogueEntry(
        "image",
        "Photographs and the kinds of landscape they show (colour and texture).",
        *(2000, 135, 5, 1.236, 20),
        files=(("image.csv", "7eb8bd6f166c9191eb31914afc0e0c7657d7217464d66b5c62a2ba1e06f3ed06"),),
        read=lambda folder: read_csv(folder / "image.csv", labels=5),
        openml_id=41468,
    ),
    *_rcv1_entries(),
    CatalogueEntry(
        "tmc2007_500",
        "Aviation safety reports and the problems they describe (500 selected words).",
        *(28596, 500, 22, 2.158, 1341),
        files=(
            (
                "tmc2007-500.arff",
                "3ea7e95dd80a78a3e7d521d77c3371bfef888da1d364b5a3bb71c7222ad7f013",
            ),
            ("tmc2007-500.xml", "cb6a67c8ae72fd9b47d89f77aa5b7f6cafb4ba9c20b1124c65a95a3f2caec38d"),
        ),
        read=_mulan("tmc2007-500"),
        openml_names=("tmc2007-500", "tmc2007_500"),
    ),
    CatalogueEntry(
        "bibtex",
        "Bibliography entries and their tags (bag of words).",
        *(7395, 1836, 159, 2.402, 2856),
        files=(
            ("bibtex.arff", "a282a6d1fb3cdaf39bde3f81cd4e6079850a7a538a6bc44f8b4ed95dfe1e5014"),
            ("bibtex.xml", "08fe20013c1e75dcf1888c185f5187c95e76495b8518ce289b4d3afce38d1232"),
        ),
        read=_mulan("bibtex"),
        openml_names=("bibtex",),
    ),
    CatalogueEntry(
        "eukaryote_go",
        "Proteins and where in the cell they are found (terms of the gene ontology). The names of "
        "the labels are lost; 14 rows have no term, and every ninth is a copy of another.",
        *(7766, 12689, 22, 1.146, 112),
        files=(
            (
                "eukaryote_go.arff",
                "050c08bd262cf8f5675234b92608dec5fa38213e316975af2531ddb6be99d15c",
            ),
            (
                "eukaryote_go.xml",
                "f3e0c127dac5b023fec3a658711f219159bf2b64e4c1ba8c48d51c061601be1c",
            ),
        ),
        read=_mulan("eukaryote_go"),
    ),
    CatalogueEntry(
        "solar_flare",
        "Active regions of the sun and how many flares of three classes followed: three class "
        "variables. Ten nominal features, encoded as 28 columns.",
        *(323, 28, 3, None, 14),
        files=(
            (
                "solar_flare.arff",
                "75e8af9c7cd7eb3951e32af2907469c61bff0bc0c0a513887a74d87fd51a2592",
            ),
        ),
        read=lambda folder: read_meka(folder / "solar_flare.arff"),
        n_attributes=10,
        openml_names=("sf1", "solar_flare"),
    ),
    CatalogueEntry(
        "water_quality",
        "Samples of river water and how dense 14 species are in them (0, 1, 3, 5): fourteen class "
        "variables.",
        *(1060, 16, 14, None, 989),
        files=(
            (
                "water_quality.arff",
                "4a0906b4a51bf52c986790ddaf261ba51faa3da9cffe823badabd88d38d252fe",
            ),
        ),
        read=lambda folder: read_arff(folder / "water_quality.arff", labels=14),
        openml_names=("wq", "water_quality"),
    ),
]
CATALOGUE: dict[str, CatalogueEntry] = {entry.name: entry for entry in _ENTRIES}


def list_datasets() -> dict[str, tuple[int, int, int]]:
    """Names of the data sets `load` knows, each with its rows, features and labels.

    Examples
    --------
    >>> from colabel.datasets import list_datasets
    >>> list_datasets()["yeast"]
    (2417, 103, 14)
    """
    return {name: entry.shape for name, entry in CATALOGUE.items()}


def describe(name: str) -> CatalogueEntry:
    """Say what the catalogue knows of a data set, without reading it.

    Examples
    --------
    >>> from colabel.datasets import describe
    >>> describe("emotions").label_cardinality
    1.868
    """
    if name not in CATALOGUE:
        raise DatasetError(
            f"There is no data set {name!r} in the catalogue: choose one of "
            f"{', '.join(CATALOGUE)}; or read a file of your own with read_mulan, read_meka, "
            "read_arff, read_csv or read_parquet."
        )
    return CATALOGUE[name]
