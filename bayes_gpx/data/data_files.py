"""Data sets in a folder of CSV files, or on OpenML: names, checksums, units and sources."""

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Files:
    """A data set that is read from a folder."""

    files: dict  # path below the folder -> SHA-256
    target: str
    source: str
    units: dict = field(default_factory=dict)
    drop: tuple = ()  # columns that are neither features nor the response


IN_FOLDER = {
    "boston": Files(
        {"boston/boston.csv": "ae5202813900fcfc672660a2b883d98da7b280ba0545e0d053b826d7d0332274"},
        "medv",
        "D. Harrison, D. L. Rubinfeld, J. Environ. Econ. Manage. 5 (1978) 81-102, doi "
        "10.1016/0095-0696(78)90006-2 (StatLib). Column `black` encodes an assumption about race: "
        "use the data to reproduce published results only.",
        {
            "crim": "crimes per person",
            "zn": "%",
            "indus": "%",
            "nox": "parts per 10 million",
            "rm": "rooms",
            "age": "%",
            "dis": "weighted distance",
            "tax": "$ per $10,000",
            "ptratio": "pupils per teacher",
            "lstat": "%",
            "medv": "$1000",
        },
    ),
    "abalone": Files(
        {"abalone/abalone.csv": "b36baf97dbcb1ae8d70ae95dd06794ce7878aef96cefc29cd0c8ca0fd9f8aee1"},
        "rings",
        "W. Nash et al. (1994), Abalone, UCI, doi 10.24432/C55C7W, CC BY 4.0.",
        dict.fromkeys(("length", "diameter", "height"), "200 mm")
        | dict.fromkeys(
            ("whole_weight", "shucked_weight", "viscera_weight", "shell_weight"), "200 g"
        )
        | {"rings": "rings"},
    ),
    "fish": Files(
        {
            "qsar_fish_toxicity/qsar_fish_toxicity.csv": (
                "90065f7fccf14fd27b6749cd5c80e187b80d055bc64898fc9258d6e39995df97"
            )
        },
        "LC50",
        "M. Cassotti et al., SAR QSAR Environ. Res. 26 (2015) 217-243, doi "
        "10.1080/1062936X.2015.1018938; UCI, doi 10.24432/C5JG7B, CC BY 4.0.",
        {"LC50": "-log10(mol/L)"},
    ),
    "wine": Files(
        {
            "wine_quality/winequality_red.csv": (
                "228372b9c106bcbb50ce14bb616873495975bd761d2641cfd02900427f1ff8be"
            ),
            "wine_quality/winequality_white.csv": (
                "0f9b72c6f593bd8b91edc4f5584f0939849e843c3584a4a2fa5b6f2e25be5277"
            ),
        },
        "quality",
        "P. Cortez et al., Decision Support Systems 47 (2009) 547-553, doi "
        "10.1016/j.dss.2009.05.016; UCI, doi 10.24432/C56S3T, CC BY 4.0.",
        dict.fromkeys(
            ("fixed_acidity", "volatile_acidity", "citric_acid", "residual_sugar", "chlorides"),
            "g/dm³",
        )
        | dict.fromkeys(("free_sulfur_dioxide", "total_sulfur_dioxide"), "mg/dm³")
        | {"density": "g/cm³", "sulphates": "g/dm³", "alcohol": "% vol.", "quality": "score 0-10"},
    ),
    "wpbc": Files(
        {"wpbc/wpbc.csv": "ae508f2316655edea4ce61893e50b3234f520f30056bd4f0f6febd14441ec91f"},
        "time",
        "W. Wolberg, W. Street, O. Mangasarian (1995), Breast Cancer Wisconsin (Prognostic), UCI, "
        "doi 10.24432/C5GK50, CC BY 4.0; the rows without recurrence.",
        {"tumor_size": "cm", "time": "months"},
        ("id", "outcome", "tumor_size", "lymph_node_status"),
    ),
    "taipei": Files(
        {
            "real_estate_taipei/real_estate_valuation.csv": (
                "060c3458899053ff8bcb804936894bab3616873818201306ba7eaa09a505e2e4"
            )
        },
        "price_per_unit_area",
        "I-C. Yeh, T.-K. Hsu, Applied Soft Computing 65 (2018) 260-271; UCI, doi 10.24432/C5J30W, "
        "CC BY 4.0.",
        {
            "transaction_date": "year",
            "house_age": "years",
            "distance_to_mrt": "m",
            "n_convenience_stores": "stores",
            "latitude": "degrees",
            "longitude": "degrees",
            "price_per_unit_area": "10,000 TWD per ping (3.3 m²)",
        },
        ("no",),
    ),
    "bike": Files(
        {
            "bike_sharing/hour_february.csv": (
                "f31b3921f794ed3d43727fba192a655c157b8a4b46b066281936ebad00dff346"
            )
        },
        "cnt",
        "H. Fanaee-T, J. Gama, Progress in Artificial Intelligence 2 (2013), doi "
        "10.1007/s13748-013-0040-3; UCI, doi 10.24432/C5W894, CC BY 4.0; the hours of February.",
        {
            "atemp": "°C / 50",
            "hum": "% / 100",
            "windspeed": "/ 67",
            "hr": "hour",
            "weekday": "0 = Sunday",
            "workingday": "0, 1",
            "cnt": "rentals per hour",
        },
        ("instant", "dteday", "season", "yr", "mnth", "holiday", "weathersit", "temp")
        + ("casual", "registered"),
    ),
    "bike_days": Files(
        {
            "bike_sharing/hour.csv.gz": (
                "19f0cf0e9b4b342dab6ec44ec88af3aab164082d3691f9dc076dc92263e073f5"
            )
        },
        "rentals",
        "H. Fanaee-T, J. Gama, Progress in Artificial Intelligence 2 (2013), doi "
        "10.1007/s13748-013-0040-3; UCI, doi 10.24432/C5W894, CC BY 4.0; sums and means by day.",
        {"temp": "°C / 41", "hum": "% / 100", "windspeed": "/ 67", "workingday": "0, 1"},
    ),
    "mnist01": Files(
        {
            "mnist01/mnist01_test.csv.gz": (
                "81a93925cbc99b91e1719dc7b0b42e739220e8c5da8b8a8c7ef3f139cd2ff6e5"
            )
        },
        "label",
        "Y. LeCun, C. Cortes, C. Burges, the MNIST database; Proc. IEEE 86 (1998) 2278-2324; the "
        "zeros and ones of the test images.",
        {"label": "digit"},
        ("index",),
    ),
    "mnist01_first": Files(
        {
            "mnist01/mnist01_train_first100.csv.gz": (
                "9700b87e9c076290435bd00abd27c6230e5b92b4190c74492407fea285e1fe60"
            )
        },
        "label",
        "Y. LeCun, C. Cortes, C. Burges, the MNIST database; Proc. IEEE 86 (1998) 2278-2324; the "
        "zeros and ones of the first hundred training images.",
        {"label": "digit"},
        ("index",),
    ),
    "paper_reviews": Files(
        {
            "paper_reviews/paper_reviews.csv.gz": (
                "80f178241fcba250fc7e2db4b066d8f58ac7546d706eb9ec3d9eff387717bea1"
            )
        },
        "evaluation",
        "B. Keith, E. Fuentes, C. Meneses (2017), Paper Reviews, UCI, doi 10.24432/C50G60; the "
        "reviews with a text, mostly in Spanish.",
        {"evaluation": "-2 to 2"},
        ("paper_id", "preliminary_decision", "review_id", "language", "confidence")
        + ("orientation", "timespan", "remarks"),
    ),
}


class Remote(NamedTuple):
    """A data set on OpenML."""

    data_id: int  # its number there
    columns: tuple  # this package's names of its columns, the response last
    sha256: str  # checksum of the values, see `bayes_gpx.data.datasets`
    rows: slice = slice(None)  # rows to take
    labels: tuple | None = None  # values of the response to keep; None for all


REMOTE = {
    "boston": Remote(
        531,
        ("crim", "zn", "indus", "chas", "nox", "rm", "age", "dis", "rad", "tax", "ptratio")
        + ("black", "lstat", "medv"),
        "47fba745b3e9f2e4b48a6068a68d175c0eb16b6ed3d73a480034c6c7310c6128",
    ),
    "abalone": Remote(
        183,
        ("sex", "length", "diameter", "height", "whole_weight", "shucked_weight")
        + ("viscera_weight", "shell_weight", "rings"),
        "514e40ba8add63bcb0d1b0579bfd6fa5fba4d243b0f98a0280e3973726ba7585",
    ),
    "wine": Remote(
        40691,
        ("fixed_acidity", "volatile_acidity", "citric_acid", "residual_sugar", "chlorides")
        + ("free_sulfur_dioxide", "total_sulfur_dioxide", "density", "pH", "sulphates")
        + ("alcohol", "quality"),
        "65e91c41558aebcc94d9641d73ee022e3b638328838fdaa8ea21413c1de105fd",
    ),
    "mnist01": Remote(
        554,
        (*(f"p{row}_{column}" for row in range(28) for column in range(28)), "label"),
        "e02f5d9a616e42070a213b23e58ea2d0218e16bc32296c50301359632046cf67",
        slice(60_000, None),
        (0, 1),
    ),
}
