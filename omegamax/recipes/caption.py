"""Describes pictures: "a seven left of a three above a five", or the LaTeX of a formula.

    omegamax train caption --reading exact --attention sparsemax
    omegamax attend runs/caption-exact-sparsemax "a seven left of a three above a five" --out words.png
    echo picture.png | omegamax predict runs/caption-exact-sparsemax

A network turns the picture into a grid of vectors, and a decoder reads the grid before each word (Xu et al., "Show,
attend and tell", ICML 2015): softly, an average of all cells; hard, one cell, learned by REINFORCE or by the sum over
all cells; or not at all, the same mean of all cells for every word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from omegamax.attention.estimators import (
    Estimator,
    Marginalize,
    MovingAverage,
    OthersMean,
    Reinforce,
    SoftStart,
    SometimesSoft,
)
from omegamax.attention.weight_counts import WeightCounts, count_weights, weight_metrics
from omegamax.data.digit_scenes import (
    DIGIT_SIZE,
    SIZE,
    Scene,
    draw_scenes,
    read_scene,
    render_scene,
    scene_of_sentence,
    write_scene,
)
from omegamax.data.formula_pictures import FormulaPicture, ink_of, read_formulas
from omegamax.data.moving_digits import DIGITS, load_digit_images
from omegamax.data.pictures import read_picture
from omegamax.data.vocabulary import END, PADDING, SPECIAL, Vocabulary
from omegamax.models.captioner import STRIDE, Captioner, GridEncoder
from omegamax.operators.grid_tv import GridTV
from omegamax.operators.scaled import Scaled
from omegamax.recipes.description import Description, n_examples, target_losses, text_scores, total
from omegamax.recipes.metrics import edit_distances, import_sacrebleu
from omegamax.recipes.normalizers import HARD, NONE, make_normalizer
from omegamax.recipes.settings import CaptionSettings
from omegamax.smoothmax import SmoothMax
from omegamax.training.task import AttentionMap

GRID_TV = "grid-tv"
_MAX_WORDS = 100_000  # that a model knows


class CaptionExample(NamedTuple):
    """A picture: a scene of digits, a formula, or one of a file; the target is "" where it is not known."""

    target: str
    scene: Scene | None = None
    formula: FormulaPicture | None = None
    pixels: np.ndarray | None = None  # (H, W), of a file


class CaptionBatch(NamedTuple):
    """Pictures and their descriptions."""

    pictures: Tensor  # (B, H, W)
    sizes: Tensor  # (B, 2), rows and columns
    target: Tensor  # (B, words + 2): START, words, END, PADDING


class Caption(Description):
    """Learns to say what is where in pictures."""

    name: ClassVar[str] = "caption"
    settings_type: ClassVar[type] = CaptionSettings
    settings: CaptionSettings

    @classmethod
    def normalizer(cls, settings: CaptionSettings) -> SmoothMax:
        return make_grid_normalizer(settings)

    @classmethod
    def prepare(cls, settings: CaptionSettings) -> Caption:
        """Makes the task; scenes are drawn when they are asked for."""
        import_sacrebleu()
        if settings.data is None:
            load_digit_images()
            every = write_scene([range(len(DIGITS)), [0]]).split()
            return cls(settings, Vocabulary.of([every], max_size=1000).to_json())
        formulas = _read(settings)
        words = [example.target.split() for example in formulas["train"]]
        task = cls(settings, Vocabulary.of(words, max_size=_MAX_WORDS).to_json())
        task._splits = formulas
        return task

    def examples(self, split: str) -> Sequence[CaptionExample]:
        """Returns the pictures of a split; each split of digits shows images of its own."""
        settings = self.settings
        if split not in self._splits and settings.data is not None:
            self._splits = _read(settings)
        if split not in self._splits:
            limits = {"max_rows": settings.max_rows, "max_columns": settings.max_columns}
            count = n_examples(settings.pictures, split)
            scenes = draw_scenes(count, split, **limits, seed=settings.data_seed)
            self._splits[split] = [CaptionExample(scene.sentence, scene) for scene in scenes]
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[CaptionExample]:
        """Makes an example of each line: the path of a picture, or, of digits, a sentence, which is then drawn."""
        found = []
        for line in map(str.strip, lines):
            is_file = line.lower().endswith((".png", ".npy"))
            if self.settings.data is None and not is_file:
                scene = scene_of_sentence(line, seed=self.settings.data_seed)
                found.append(CaptionExample(scene.sentence, scene))
            else:
                found.append(CaptionExample("", pixels=self._read_file(Path(line))))
        return found

    def _read_file(self, path: Path) -> np.ndarray:
        grey = read_picture(path)
        if self.settings.data is not None:
            return ink_of(grey, self.settings.shrink) / np.float32(255)
        if grey.shape != (SIZE, SIZE):
            raise ValueError(
                f"{path}: expected {SIZE} × {SIZE} pixels, white digits on black, got {grey.shape}; cut or resize it"
            )
        return grey

    def length(self, example: CaptionExample) -> int:
        """Returns the number of pixels."""
        if example.scene is not None:
            return SIZE**2
        return (example.pixels if example.formula is None else example.formula.ink).size  # type: ignore[union-attr]

    def batch_lengths(self, examples: Sequence[CaptionExample]) -> Sequence[Sequence[int]]:
        """Returns the number of words, which costs most, and the number of pixels."""
        return [(len(example.target.split()), self.length(example)) for example in examples]

    def model(self) -> nn.Module:
        """Returns the network that the settings name."""
        settings = self.settings
        return Captioner(
            GridEncoder(settings.features),
            len(self.vocabulary),
            normalizer=None if settings.reading == "none" else self._normalizer,
            estimator=_make_estimator(settings),
            n_samples=settings.samples,
            rewards_rest=settings.reward == "rest",
            embedding_size=settings.embedding_size,
            hidden_size=settings.hidden_size,
            dropout=settings.dropout,
            padding=PADDING,
        )

    def collate(self, examples: Sequence[CaptionExample]) -> CaptionBatch:
        pictures = [torch.from_numpy(_pixels(example)) for example in examples]
        sizes = torch.tensor([list(picture.shape) for picture in pictures])
        together = torch.zeros(len(pictures), *sizes.amax(0).tolist())
        for row, picture in zip(together, pictures):
            row[: picture.shape[0], : picture.shape[1]] = picture
        return CaptionBatch(together, sizes, self.target_of([example.target.split() for example in examples]))

    def text(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def assess(self, model: nn.Module, examples: Sequence[CaptionExample]) -> list[str]:
        """Returns for each picture the description, a tab, and JSON: the loss of the target, and where words look."""
        assert isinstance(model, Captioner)
        batch = self.batch_for(model, examples)
        written, weights = batch.target[:, 1:] != PADDING, model.attend(*batch)
        outputs, found = self.search(model, batch), target_losses(model, batch)
        lines = []
        for item, (example, output, more) in enumerate(zip(examples, outputs, found)):
            if weights is not None:
                rows, columns = _cells(batch.sizes[item])
                looked = weights[item, written[item], :rows, :columns].cpu()
                more["counts"] = count_weights(looked.flatten(1), always_positive=self._normalizer.always_positive)
                more |= self._attention_on_digits(example, looked)
            lines.append(f"{self.text_of(output)}\t{json.dumps(more)}")
        return lines

    def _attention_on_digits(self, example: CaptionExample, weights: Tensor) -> dict[str, float]:
        """Sums over the words for digits the weight (words, h, w) on the digit, an even one, and hits of the peak."""
        places = self.true_places(example, example.target.split())
        on_object, even, hits = 0.0, 0.0, 0
        for place, looked in zip(places, weights):
            if place is not None:
                covered = covered_cells(place, looked.shape)
                on_object += float((looked * covered).sum())
                even += float(covered.mean())
                hits += bool(covered.flatten()[looked.argmax()] >= 0.5)
        return {"on_object": on_object, "even": even, "hits": hits, "digit_words": sum(map(bool, places))}

    def true_places(self, example: CaptionExample, words: Sequence[str]) -> list[tuple[int, int, int, int] | None]:
        """Returns for each word the box of the digit that it names, as top, left, height and width in pixels.

        None for other words, for pictures whose places are not known, and for more digits than there are.
        """
        digits = iter(() if example.scene is None else example.scene.digits)
        found: list[tuple[int, int, int, int] | None] = []
        for word in words:
            placed = next(digits, None) if word in DIGITS else None
            found.append(None if placed is None else (placed.row, placed.column, DIGIT_SIZE, DIGIT_SIZE))
        return found

    def score(self, examples: Sequence[CaptionExample], predictions: Sequence[str]) -> dict[str, float]:
        """Computes BLEU, exact match, edit distance and perplexity, and where the words for digits look."""
        lines = [line.partition("\t") for line in predictions]
        texts, more = [line[0] for line in lines], [json.loads(line[2]) for line in lines]
        targets = [example.target for example in examples]
        edits = sum(edit_distances([text.split() for text in texts], [target.split() for target in targets]))
        scores = {
            **text_scores(texts, targets, more, tokenize="none"),
            "edit_distance": edits / max(1, len(targets)),
            "word_error_rate": edits / max(1, sum(len(target.split()) for target in targets)),
        }
        if self.settings.data is None:
            scores |= _parts([_read_text(text) for text in texts], [_read_text(target) for target in targets])
        n_words = total(more, "digit_words")
        if n_words:
            for name, part in (("attention_on_object", "on_object"), ("even_attention", "even"), ("pointing", "hits")):
                scores[name] = total(more, part) / n_words
        counted = weight_metrics(WeightCounts(*each["counts"]) for each in more if "counts" in each)
        return scores | {name: counted[name] for name in ("zeros", "support") if name in counted}

    def _looks(self, model: nn.Module, examples: Sequence[CaptionExample]) -> list[tuple[list[str], Tensor]]:
        """Returns for each picture the words that are written, and their weights (words, h, w)."""
        outputs = self.write(model, examples)
        if outputs.weights is None:
            return []
        found = []
        for example, tokens, weights in zip(examples, outputs.tokens, outputs.weights):
            words = [SPECIAL[END] if number == END else self.vocabulary.tokens([number])[0] for number in tokens]
            rows, columns = _cells(torch.tensor(_pixels(example).shape))
            found.append((words, weights[: len(words), :rows, :columns]))
        return found

    def attend(self, model: nn.Module, examples: Sequence[CaptionExample]) -> list[AttentionMap]:
        """Returns for each word of a description how much it looks at each cell, named row,column; or nothing."""
        return [
            AttentionMap(
                words,
                [f"{row},{column}" for row in range(weights.shape[1]) for column in range(weights.shape[2])],
                weights.flatten(1),
                self._normalizer.always_positive,
            )
            for words, weights in self._looks(model, examples)
        ]

    def draw(self, model: nn.Module, examples: Sequence[CaptionExample]) -> list[Any]:
        """Returns a figure for each picture: where it looks at each word; the true places of digits are framed."""
        from omegamax.plots import grid_attention

        return [
            grid_attention(
                weights,
                torch.from_numpy(_pixels(example)),
                words,
                cell=STRIDE,
                boxes=self.true_places(example, words),
                title=f"{self.settings.reading}, {self.settings.attention}",
            )
            for example, (words, weights) in zip(examples, self._looks(model, examples))
        ]


def make_grid_normalizer(settings: CaptionSettings) -> SmoothMax:
    """Returns the normalizer over the cells of a grid: that of a row of cells, or of two dimensions."""
    if settings.attention in (HARD, NONE):
        instead = "--reading exact --attention sparsemax" if settings.attention == HARD else "--reading none"
        raise ValueError(f"attention must be a normalizer, got {settings.attention!r}; write {instead}")
    if settings.attention != GRID_TV:
        return make_normalizer(settings)
    for name in ("alpha", "p"):
        if getattr(settings, name) is not None:
            raise ValueError(f"attention {GRID_TV} takes no {name}, got {getattr(settings, name)}; leave it out")
    smooth = GridTV() if settings.strength is None else GridTV(settings.strength)
    return smooth if settings.gamma == 1 else Scaled(smooth, settings.gamma)


def _make_estimator(settings: CaptionSettings) -> Estimator | None:
    if settings.reading == "exact":
        return Marginalize()
    if settings.reading != "reinforce":
        return None
    baseline = MovingAverage() if settings.samples == 1 else OthersMean()
    scale, bonus = settings.reward_scale, settings.entropy_bonus
    reinforce = Reinforce(baseline=baseline, reward_scale=scale, entropy_bonus=bonus)
    estimator = SometimesSoft(reinforce, probability=settings.soft_share)
    return SoftStart(estimator, settings.soft_start) if settings.soft_start else estimator


def _read(settings: CaptionSettings) -> dict[str, list[CaptionExample]]:
    """Reads formulas; those that are too long are left out of training."""
    assert settings.data is not None
    found = {
        split: [CaptionExample(" ".join(formula.tokens), formula=formula) for formula in formulas]
        for split, formulas in read_formulas(settings.data, factor=settings.shrink).items()
    }
    found["train"] = [each for each in found["train"] if len(each.target.split()) <= settings.max_length]
    return found


def _pixels(example: CaptionExample) -> np.ndarray:
    if example.scene is not None:
        return render_scene(example.scene)
    if example.formula is not None:
        return example.formula.ink / np.float32(255)
    assert example.pixels is not None
    return example.pixels


def _cells(size: Tensor) -> list[int]:
    """Returns the rows and columns of the grid of a picture (2,)."""
    return [-(-pixels // STRIDE) for pixels in size.tolist()]


def covered_cells(box: tuple[int, int, int, int], grid: Sequence[int]) -> Tensor:
    """Returns the share (h, w) of each cell of a grid that is within a box of pixels: top, left, height and width."""
    top, left, height, width = box
    inside = torch.zeros(grid[0] * STRIDE, grid[1] * STRIDE)
    inside[top : top + height, left : left + width] = 1
    return inside.unflatten(0, (-1, STRIDE)).unflatten(-1, (-1, STRIDE)).mean((1, 3))


def _read_text(text: str) -> list[list[int]] | None:
    """Returns the rows of digits of a description; None if it is not a sentence."""
    try:
        return read_scene(text)
    except ValueError:
        return None


def _parts(said: Sequence[Any], wanted: Sequence[Any]) -> dict[str, float]:
    """Returns the share of pictures whose digits are right, in order and in any order, and whose rows are as long."""
    pairs = [(one, other) for one, other in zip(wanted, said) if other is not None]
    flat = [(list(chain.from_iterable(one)), list(chain.from_iterable(other))) for one, other in pairs]
    count = max(1, len(wanted))
    return {
        "digits": sum(one == other for one, other in flat) / count,
        "digits_any_order": sum(sorted(one) == sorted(other) for one, other in flat) / count,
        "layout": sum([*map(len, one)] == [*map(len, other)] for one, other in pairs) / count,
    }
