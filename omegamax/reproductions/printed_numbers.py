"""Compares sentences about tables with the numbers that the same source prints."""

from __future__ import annotations

from collections.abc import Iterable

from omegamax.reproductions.claim import Outcome, Published, Row, at_least, finds, short, shown


def entailment(published: Published) -> Outcome:
    """Fusedmax reaches the highest accuracy, and oscarmax slightly outperforms softmax."""
    best = max(published, key=lambda name: published[name])
    return Outcome(
        [
            finds("highest accuracy", "fusedmax", best, best == "fusedmax"),
            at_least("oscarmax − softmax", 0, published["oscarmax"] - published["softmax"]),
            at_least("softmax − oscarmax + 0.5 (only slightly)", 0, published["softmax"] - published["oscarmax"] + 0.5),
        ]
    )


def summarization(published: Published) -> Outcome:
    """Fusedmax is the best under nearly all metrics, and always above softmax."""
    metrics = sorted({name.split(": ")[1] for name in published})
    mechanisms = sorted({name.split(": ")[0] for name in published})
    best = [max(mechanisms, key=lambda name: published[f"{name}: {metric}"]) for metric in metrics]
    wins = best.count("fusedmax")
    rows = [finds(f"metrics of {len(metrics)} that fusedmax leads", "nearly all", str(wins), wins >= len(metrics) - 1)]
    rows += [
        at_least(f"{metric}: fusedmax − softmax", 0, published[f"fusedmax: {metric}"] - published[f"softmax: {metric}"])
        for metric in metrics
    ]
    return Outcome(rows)


def faster_epochs(published: Published) -> Outcome:
    """Compares the times of an epoch with softmax and with sparse attention, in units of their spread."""
    dense, rows = published["softmax"], []
    for name in ("sparsemax", "fusedmax", "oscarmax"):
        spread = (published[f"{name} ±"] ** 2 + published["softmax ±"] ** 2) ** 0.5
        rows.append(at_least(f"softmax − {name}, in spreads of the difference", 1, (dense - published[name]) / spread))
    return Outcome(rows)


def unknown_words(published: Published) -> Outcome:
    """Attention is much better than a fixed vector, and near the phrase-based system where no word is unknown."""
    rows = []
    for length in (30, 50):
        for column in ("all", "no UNK"):
            gain = published[f"RNNsearch-{length}: {column}"] - published[f"RNNencdec-{length}: {column}"]
            rows.append(at_least(f"RNNsearch-{length} − RNNencdec-{length}, {column}", 5, gain))
    rows.append(
        at_least("RNNsearch-50* − Moses, no UNK", 0, published["RNNsearch-50*: no UNK"] - published["Moses: no UNK"])
    )
    return Outcome(rows)


def three_times_faster(published: Published) -> Outcome:
    """Divides the training costs of other single models by those of the Transformer."""
    rows = []
    for column, ours, others in (
        ("EN-DE", "Transformer (base): EN-DE", ("GNMT + RL", "ConvS2S", "MoE")),
        ("EN-FR", "Transformer (big): EN-FR", ("Deep-Att + PosUnk", "GNMT + RL", "ConvS2S", "MoE")),
    ):
        rows += [
            at_least(f"{column}: {name} over {ours.split(':')[0]}", 3, published[f"{name}: {column}"] / published[ours])
            for name in others
        ]
    return Outcome(rows)


def what_matters(published: Published) -> Outcome:
    """Compares rows B, C, D and E of the ablation table (BLEU, development set) with the sentences beside it."""
    base, rows = published["base"], []
    for name in ("(B) d_k = 16", "(B) d_k = 32"):
        rows.append(at_least(f"base − {name}", 0.1, base - published[name]))
    rows += _rises(published, "(C) layers", ("(C) N = 2", "(C) N = 4", "base", "(C) N = 8"))
    rows += _rises(published, "(C) d_model", ("(C) d_model = 256", "base", "(C) d_model = 1024"))
    rows += _rises(published, "(C) d_ff", ("(C) d_ff = 1024", "base", "(C) d_ff = 4096"))
    rows.append(at_least("base − (D) without dropout", 0.1, base - published["(D) dropout 0.0"]))
    rows.append(at_least("(E) learned positions − base, within 0.2", -0.2, published["(E) learned positions"] - base))
    return Outcome(rows)


def _rises(published: Published, name: str, models: Iterable[str]) -> list[Row]:
    values = [published[model] for model in models]
    return [finds(f"{name}: from small to large", "rises", ", ".join(map(short, values)), values == sorted(values))]


def video_descriptions(published: Published) -> Outcome:
    """Compares the model with both encoders with the others, and each encoder alone with neither, in every column."""
    rows = []
    for column in dict.fromkeys(name.partition(": ")[2] for name in published):
        sign = -1 if "perplexity" in column else 1  # lower is better
        score = {name.partition(": ")[0]: sign * x for name, x in published.items() if name.endswith(f": {column}")}
        both = score.pop("+ both")
        rows.append(finds(f"both, {column}", "the best", short(sign * both), both > max(score.values())))
        for name in ("+ 3-D CNN", "+ per-frame CNN"):
            rows.append(shown(f"{name}, {column}", "better alone" if score[name] > score["Enc-Dec"] else "worse alone"))
    return Outcome(rows)


def caption_gains(published: Published) -> Outcome:
    """Subtracts the BLEU of the model without attention from that with soft and with hard attention."""
    columns = list(dict.fromkeys(name.partition(": ")[2] for name in published))
    rows, models = [], {"soft": "Soft-Attention", "hard": "Hard-Attention"}
    for (kind, model), said in zip(models.items(), (2, 4)):
        gains = [published[f"{model}: {column}"] - published[f"Google NIC: {column}"] for column in columns]
        rows.append(at_least(f"{kind}: mean gain, rounded", said, round(sum(gains) / len(gains))))
        rows.append(shown(f"{kind}: gains", ", ".join(f"{gain:+.1f}" for gain in gains)))
    better = all(published[f"Hard-Attention: {each}"] >= published[f"Soft-Attention: {each}"] for each in columns)
    rows.append(finds("hard is at least as good as soft", "in every column", "yes" if better else "no", better))
    return Outcome(rows)
