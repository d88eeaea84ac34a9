"""What the commands of `omegamax timeseries` compute, print, write and draw. Each function takes the options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omegamax.cli.errors import CommandError
from omegamax.cli.output import check_absent, check_pictures, save_picture
from omegamax.cli.tables import aligned, terminal_width
from omegamax.data.files import write_user_file
from omegamax.data.printable import printable
from omegamax.data.time_series_files import TimeSeriesFile, format_of, read_time_series, write_time_series

_PICTURES = (".png", ".pdf", ".svg")
_FEW = 12  # series whose matrix or neighbours are printed


def distance(options: argparse.Namespace) -> None:
    """Computes a matrix of distances."""
    check_out(options, (".npy", ".csv"))
    one = read(options, options.file)
    other = None if options.other is None else read(options, options.other)
    if options.tree and (other is not None or options.out is None):
        raise CommandError("--tree draws the series of one file into --out; give one file and a picture")
    from omegamax.timeseries.matrix import cdist

    matrix = np.asarray(cdist(one.series, None if other is None else other.series, **measure(options, one, other)))
    if options.out is not None and options.out.suffix.lower() in _PICTURES:
        from omegamax import plots

        if options.tree:
            figure = plots.series_dendrogram(matrix, names=one.labels)
        else:
            columns = None if other is None else other.labels
            figure = plots.distance_matrix(matrix, labels=one.labels, columns=columns, title=options.distance)
        save_picture(figure, options.out, chosen=True)
    elif options.out is not None:
        write_matrix(options.out, matrix)
    if options.json:
        print(json.dumps({"distance": options.distance, "shape": list(matrix.shape), "distances": matrix.tolist()}))
        return
    print(f"{matrix.shape[0]} x {matrix.shape[1]} distances ({options.distance})")
    apart = matrix[~np.eye(len(matrix), dtype=bool)] if other is None else matrix
    if apart.size:
        print(f"least {apart.min():.6g}, median {np.median(apart):.6g}, largest {apart.max():.6g}")
    if options.out is not None:
        print(printable(options.out))
    elif max(matrix.shape) <= _FEW:
        rows = [["", *map(str, range(matrix.shape[1]))]]
        rows += [[str(number), *(f"{value:.4g}" for value in row)] for number, row in enumerate(matrix.tolist())]
        print(aligned(rows, terminal_width()))


def neighbours(options: argparse.Namespace) -> None:
    """Finds the nearest references of each query."""
    check_out(options, (".csv",), pictures=False)
    queries, references = read(options, options.queries), read(options, options.references)
    if options.neighbours > len(references.series):
        raise CommandError(
            f"--neighbours must be at most the {len(references.series)} series of {options.references}, got "
            f"{options.neighbours}; choose fewer"
        )
    from omegamax.timeseries.neighbours import nearest

    given = measure(options, queries, references)
    found = nearest(queries.series, references.series, n_neighbors=options.neighbours, **given)
    distances, indices = np.asarray(found.distances).tolist(), np.asarray(found.indices).tolist()
    lines = [
        f"{query},{rank},{index},{value!r}"
        for query, (row, values) in enumerate(zip(indices, distances))
        for rank, (index, value) in enumerate(zip(row, values), start=1)
    ]
    text = "\n".join(["query,rank,reference,distance", *lines]) + "\n"
    if options.out is not None:
        write_user_file(options.out, text.encode())
    if options.json:
        print(json.dumps({"distances": distances, "indices": indices, "pruned": found.pruned._asdict()}))
    elif options.out is not None:
        print(printable(options.out))
    else:
        print(text, end="")
        report = found.pruned
        print(f"# {report.computed} of {report.pairs} distances were computed to the end")


def classify(options: argparse.Namespace) -> None:
    """Classifies series by examples."""
    check_out(options, (".csv",), pictures=False)
    train, test = read(options, options.train), read(options, options.test)
    if train.labels is None:
        raise CommandError(f"{options.train} has no labels to learn from; give a file with labels, or see --label")
    model = _classifier(options)
    model.fit(train.series, np.array(train.labels))
    found = [str(each) for each in model.predict(test.series)]
    result: dict[str, Any] = {"method": options.method, "distance": options.distance, "classes": found}
    if hasattr(model, "learned_window_"):
        learned = model.learned_window_
        result["window"] = {"steps": learned.steps, "percent": learned.percent, "leave_one_out_error": learned.error}
    if test.labels is not None:
        wrong = sum(one != other for one, other in zip(found, test.labels))
        result |= {"error": wrong / len(found), "wrong": wrong, "n": len(found), "truth": test.labels}
    if options.out is not None:
        truth = test.labels or [""] * len(found)
        lines = [f"{number},{one},{other}" for number, (one, other) in enumerate(zip(found, truth))]
        write_user_file(options.out, ("\n".join(["series,predicted,label", *lines]) + "\n").encode())
    if options.json:
        print(json.dumps(result))
        return
    if "window" in result:
        print("window {steps} steps, {percent:g} percent".format(**result["window"]))
    if test.labels is not None:
        print(f"error {result['error']:.4f}: {result['wrong']} of {result['n']} series are wrong")
        print(_confusion(test.labels, found, "label", "predicted"))
    if options.out is not None:
        print(printable(options.out))
    elif test.labels is None:
        for number, one in enumerate(found):
            print(f"{number}\t{printable(one)}")


def _classifier(options: argparse.Namespace) -> Any:
    from omegamax import timeseries

    if options.method != "neighbours" and options.window is not None:
        raise CommandError("--window needs --method neighbours; leave it out")
    if options.method == "neighbours":
        return timeseries.KNeighborsTimeSeriesClassifier(
            options.neighbours, distance=options.distance, window=options.window, gamma=options.gamma
        )
    if options.method == "centroid":
        smoothed = options.distance != "dtw"
        return timeseries.NearestCentroid(
            barycenter=options.distance if smoothed else "soft_dtw", distance=options.distance, gamma=options.gamma
        )
    if options.distance not in ("dtw", "soft_dtw_divergence"):
        raise CommandError("--method svm compares by soft_dtw_divergence; leave out --distance")
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    return make_pipeline(timeseries.SoftDTWKernel(gamma=options.gamma), SVC(C=10.0, kernel="precomputed"))


def cluster(options: argparse.Namespace) -> None:
    """Divides series into clusters, and writes their numbers, a table of sizes or a picture."""
    check_out(options, (".csv",))
    given = read(options, options.file)
    from omegamax.timeseries import TimeSeriesKMeans

    model = TimeSeriesKMeans(
        options.clusters,
        distance=options.distance,
        gamma=options.gamma,
        n_init=options.runs,
        random_state=options.seed,
    ).fit(given.series)
    labels = model.labels_.tolist()
    if options.out is not None and options.out.suffix.lower() in _PICTURES:
        from omegamax import plots

        save_picture(plots.series_clusters(given.series, labels, model.cluster_centers_), options.out, chosen=True)
    elif options.out is not None:
        lines = [f"{number},{label}" for number, label in enumerate(labels)]
        write_user_file(options.out, ("\n".join(["series,cluster", *lines]) + "\n").encode())
    if options.json:
        sizes = np.bincount(model.labels_, minlength=options.clusters).tolist()
        record = {"clusters": labels, "sizes": sizes, "inertia": model.inertia_, "n_iter": model.n_iter_}
        print(json.dumps(record | {"centers": [each.tolist() for each in model.cluster_centers_]}))
        return
    print(f"inertia {model.inertia_:.6g} after {model.n_iter_} iterations")
    words = given.labels if given.labels is not None else ["series"] * len(labels)
    print(_confusion(words, [str(label) for label in labels], "label", "cluster"))
    if options.out is not None:
        print(printable(options.out))


def barycenter(options: argparse.Namespace) -> None:
    """Computes the mean of all series, or one of each class."""
    check_out(options, (".ts", ".csv", ".tsv", ".npz", ".parquet"))
    given = read(options, options.file)
    if options.by_label and given.labels is None:
        raise CommandError(f"{options.file} has no labels; leave out --by-label, or see --label")
    groups: dict[str, list[np.ndarray]] = {}
    for one, label in zip(
        given.series, given.labels if options.by_label and given.labels else ["mean"] * len(given.series)
    ):
        groups.setdefault(label, []).append(one)
    found = {label: _mean(options, series) for label, series in groups.items()}
    if options.out is not None and options.out.suffix.lower() in _PICTURES:
        from omegamax import plots

        centres, numbers = [mean for mean, _ in found.values()], {label: n for n, label in enumerate(groups)}
        if len(groups) == 1:
            figure = plots.series_barycenter(given.series, centres[0])
        else:
            assert given.labels is not None
            chosen = [numbers[label] for label in given.labels]
            figure = plots.series_clusters(given.series, chosen, centres, names=list(groups))
        save_picture(figure, options.out, chosen=True)
    elif options.out is not None:
        means = [mean for mean, _ in found.values()]
        write_time_series(options.out, means, list(found) if options.by_label else None, name=f"{given.name}_means")
    if options.json:
        record = [
            {
                "label": label if options.by_label else None,
                "n": len(groups[label]),
                "loss": loss,
                "series": mean.tolist(),
            }
            for label, (mean, loss) in found.items()
        ]
        print(json.dumps({"barycenters": record}))
        return
    rows = [["label" if options.by_label else "", "series", "length", "mean distance"]]
    for label, (mean, loss) in found.items():
        rows.append([printable(label, max_length=40), str(len(groups[label])), str(len(mean)), f"{loss:.6g}"])
    print(aligned(rows, terminal_width()))
    if options.out is not None:
        print(printable(options.out))


def _mean(options: argparse.Namespace, series: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    if options.distance == "euclidean":
        if len({len(one) for one in series}) > 1 or options.length not in (None, len(series[0])):
            raise CommandError("--distance euclidean needs series of one length, which the mean has; choose soft_dtw")
        mean = np.mean(series, axis=0)
        return mean, float(np.mean([((one - mean) ** 2).sum() for one in series]))
    from omegamax.timeseries import SoftDTWBarycenter

    model = SoftDTWBarycenter(distance=options.distance, gamma=options.gamma, length=options.length, max_iter=1000)
    model.fit(series)
    return model.barycenter_, model.loss_


def align(options: argparse.Namespace) -> None:
    """Finds which points of two series belong together, and writes or draws the path."""
    check_out(options, (".csv",))
    one = read(options, options.file)
    other = one if options.other is None else read(options, options.other)
    for given, number, path in (
        (one, options.first, options.file),
        (other, options.second, options.other or options.file),
    ):
        if number >= len(given.series):
            raise CommandError(f"{path} has the series 0 to {len(given.series) - 1}, got {number}; choose one of them")
    from omegamax.timeseries.distances import alignment_path, distance_of

    x, y = one.series[options.first], other.series[options.second]
    pair = (TimeSeriesFile([x], None, ""), TimeSeriesFile([y], None, ""))
    given_measure = measure(options, *pair)
    value = distance_of(x, y, **given_measure)
    path = np.asarray(alignment_path(x, y, **given_measure))
    if options.out is not None and options.out.suffix.lower() in _PICTURES:
        from omegamax import plots

        names = (f"series {options.first}", f"series {options.second}")
        save_picture(plots.aligned_series(x, y, path, names=names, distance=value), options.out, chosen=True)
    elif options.out is not None:
        lines = [f"{i},{j}" for i, j in path.tolist()]
        write_user_file(options.out, ("\n".join(["first,second", *lines]) + "\n").encode())
    if options.json:
        print(json.dumps({"distance": value, "path": path.tolist()}))
        return
    print(f"distance {value:.6g} ({options.distance})")
    away = np.abs(path[:, 0] / max(1, len(x) - 1) - path[:, 1] / max(1, len(y) - 1)).max()
    print(
        f"path of {len(path)} cells for {len(x)} and {len(y)} times, at most {100 * away:.1f} percent off the diagonal"
    )
    if options.out is not None:
        print(printable(options.out))


def read(options: argparse.Namespace, path: Path) -> TimeSeriesFile:
    """Reads a file with the options of reading."""
    return read_time_series(path, label=options.label, missing=options.missing, channels=options.channels)


def measure(options: argparse.Namespace, one: TimeSeriesFile, other: TimeSeriesFile | None) -> dict[str, Any]:
    """Returns the distance and its options; the Euclidean one is a path that never leaves the diagonal."""
    if options.distance != "euclidean":
        from omegamax.timeseries.distance_options import distance_options

        return distance_options(options.distance, options.window, options.gamma)
    lengths = {len(each) for given in (one, other) if given is not None for each in given.series}
    if len(lengths) > 1 or options.window is not None:
        raise CommandError(
            f"--distance euclidean needs series of one length and no --window, got lengths from {min(lengths)} to "
            f"{max(lengths)}; choose dtw"
        )
    return {"distance": "dtw", "window": 0}


def check_out(options: argparse.Namespace, endings: Sequence[str], *, pictures: bool = True) -> None:
    """Raises CommandError unless --out can be written and its ending is known."""
    if options.out is None:
        return
    if pictures and options.out.suffix.lower() in _PICTURES:
        check_pictures([options.out], overwrite=options.overwrite)
        return
    if options.out.suffix.lower() not in endings:
        known = ", ".join((*endings, *(_PICTURES if pictures else ())))
        raise CommandError(f"{options.out} must end in one of {known}; change --out")
    if getattr(options, "tree", False):
        raise CommandError(f"--tree draws a picture, got {options.out}; choose .png, .pdf or .svg")
    format_of(options.out)
    check_absent([options.out], overwrite=options.overwrite)


def write_matrix(path: Path, matrix: np.ndarray) -> None:
    """Writes a matrix as .npy, or as .csv with numbers that read back to the bit."""
    if path.suffix.lower() == ".csv":
        lines = [",".join(map(repr, row)) for row in matrix.tolist()]
        write_user_file(path, ("\n".join(lines) + "\n").encode())
        return
    import io

    content = io.BytesIO()
    np.save(content, matrix)
    write_user_file(path, content.getvalue())


def _confusion(rows: Sequence[str], columns: Sequence[str], row_name: str, column_name: str) -> str:
    """Returns a table of counts."""
    across = sorted(set(columns), key=_by_number)
    down = sorted(set(rows), key=_by_number)
    if len(across) > 30 or len(down) > 30:
        return f"{len(down)} {row_name}s, {len(across)} {column_name}s: too many for a table, use --json"
    table = [[f"{row_name} \\ {column_name}", *(printable(each, max_length=20) for each in across)]]
    for word in down:
        counts = [sum(one == word and other == each for one, other in zip(rows, columns)) for each in across]
        table.append([printable(word, max_length=20), *map(str, counts)])
    return aligned(table, terminal_width())


def _by_number(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text
