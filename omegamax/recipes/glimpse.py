"""Says what is in a large image after a few looks at it, and chooses where to look.

    omegamax train glimpse --model retina
    omegamax attend runs/glimpse-retina "test 3" --out path.png
    echo image.npy | omegamax predict runs/glimpse-retina

Hard attention reads a few patches, so that it costs the same in an image of any size; it must choose, and learns by
REINFORCE or by an exact sum over few places. Soft attention reads every pixel, and has a gradient.
Mnih, Heess, Graves & Kavukcuoglu, "Recurrent models of visual attention", NIPS 2014.
"""

from __future__ import annotations

import dataclasses
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from omegamax.data.printable import short_repr
from omegamax.data.scattered_pictures import (
    SPLITS,
    Pictures,
    ScatteredPicture,
    load_digit_pictures,
    read_image,
    read_pictures,
    render_picture,
    scatter_pictures,
)
from omegamax.models.glimpse_classifier import (
    DifferentiableClassifier,
    GlimpseClassifier,
    RetinaClassifier,
    SparseClassifier,
)
from omegamax.models.image_readers import GridReader, Retina, WindowReader
from omegamax.operators.grid_tv import GridTV
from omegamax.recipes.normalizers import make_normalizer
from omegamax.recipes.settings import GlimpseSettings
from omegamax.smoothmax import SmoothMax
from omegamax.training.task import AttentionMap, Loss, Task

_SHARE = {"train": 1.0, "dev": 0.1, "test": 0.2}  # of the training images
_MIN_IMAGES = 100  # of dev and test
_GENERATED = re.compile(rf"({'|'.join(SPLITS)}) (\d{{1,7}})")
_CELL = 10  # pixels of a cell of printed maps, up and across


class GlimpseExample(NamedTuple):
    """A picture somewhere in an image, or an image of a file."""

    scattered: ScatteredPicture | None
    image: np.ndarray | None = None  # (H, W)


class GlimpseBatch(NamedTuple):
    """Images and what is in them; −1 where that is not known."""

    images: Tensor  # (B, H, W)
    labels: Tensor  # (B,)


class Glimpse(Task):
    """Learns to say what is in images, and to look where it can be seen."""

    name: ClassVar[str] = "glimpse"
    metric: ClassVar[str] = "accuracy"
    settings_type: ClassVar[type] = GlimpseSettings
    settings: GlimpseSettings

    def __init__(self, settings: GlimpseSettings, n_classes: int) -> None:
        self._normalizer = _normalizer(settings)
        self.settings, self.n_classes = settings, n_classes
        self._splits: dict[str, list[GlimpseExample]] = {}
        self._pictures: Mapping[str, Pictures] | None = None

    @classmethod
    def prepare(cls, settings: GlimpseSettings) -> Glimpse:
        """Makes the task and reads the pictures; images are drawn when they are asked for."""
        task = cls(settings, 1)
        task.n_classes = 1 + max(int(some.labels.max()) for some in task.pictures.values())
        return task

    @classmethod
    def restore(cls, settings: GlimpseSettings, assets: Mapping[str, Any]) -> Glimpse:
        """Makes the task from the number of classes of a checkpoint."""
        return cls(settings, assets["n_classes"])

    def assets(self) -> dict[str, Any]:
        return {"n_classes": self.n_classes}

    @property
    def pictures(self) -> Mapping[str, Pictures]:
        """The pictures of every split, which are read once."""
        if self._pictures is None:
            data = self.settings.data
            self._pictures = load_digit_pictures() if data is None else read_pictures(Path(data))
        return self._pictures

    def examples(self, split: str) -> Sequence[GlimpseExample]:
        """Returns the images of a split; each split shows pictures of its own."""
        if split not in self._splits:
            count = self.settings.images
            count = count if split == "train" else max(_MIN_IMAGES, int(_SHARE[split] * count))
            self._splits[split] = self._draw(count, split)
        return self._splits[split]

    def _draw(self, count: int, split: str) -> list[GlimpseExample]:
        settings = self.settings
        found = scatter_pictures(count, split, self.pictures, side=settings.side, seed=settings.data_seed)
        return [GlimpseExample(each) for each in found]

    def read(self, lines: Iterable[str]) -> list[GlimpseExample]:
        """Makes an example of each line: the path of a .npy file, or the name of a generated image, as "test 3"."""
        found = []
        for line in map(str.strip, lines):
            match = _GENERATED.fullmatch(line)
            if match:
                found.append(self._draw(int(match[2]) + 1, match[1])[-1])
            elif line.endswith(".npy"):
                found.append(GlimpseExample(None, read_image(Path(line))))
            else:
                raise ValueError(
                    "glimpse: expected the path of an image (.npy) or the name of a generated one such as 'test 3', "
                    f"got {short_repr(line)}; a name is one of {', '.join(SPLITS)} and a number from 0"
                )
        return found

    def length(self, example: GlimpseExample) -> int:
        """Returns the side of the image, the longer one."""
        return self.settings.side if example.image is None else max(example.image.shape)

    def fingerprint(self, example: GlimpseExample) -> str:
        """Returns where the picture is, and a checksum of it."""
        if example.scattered is None:
            return repr(example)
        here = self.pictures[example.scattered.split].pixels[example.scattered.picture]
        return f"{example.scattered} {zlib.crc32(here.tobytes())}"

    def model(self) -> GlimpseClassifier:
        """Returns the network that the settings name."""
        settings = self.settings
        features, hidden = settings.feature_size, settings.hidden_size
        shared: dict[str, Any] = {"feature_size": features, "hidden_size": hidden, "n_glimpses": settings.glimpses}
        if settings.model == "draw":
            window = WindowReader(hidden, features, patch_size=settings.patch_size)
            return DifferentiableClassifier(self.n_classes, window, **shared)
        if settings.model in ("soft", "grid-tv"):
            grid = GridReader(hidden, settings.channels, features, normalizer=self._normalizer)
            return DifferentiableClassifier(self.n_classes, grid, **shared)
        retina = Retina(features, patch_size=settings.patch_size, n_scales=settings.scales)
        if settings.model == "sparse":
            places: dict[str, Any] = {"normalizer": self._normalizer, "n_positions": settings.positions}
            return SparseClassifier(self.n_classes, retina, **places, **shared)
        options: dict[str, Any] = {"baseline": settings.baseline == "yes"}
        options |= {"entropy_bonus": settings.entropy_bonus, "reward_scale": settings.reward_scale}
        options |= {"discount": settings.discount, "deviation": settings.deviation, "n_samples": settings.samples}
        return RetinaClassifier(self.n_classes, retina, **options, **shared)

    def rate_factor(self, name: str) -> float:
        """Lets the baseline of REINFORCE learn fast, and choices of places slowly: they need eyes that can see.

        Adam takes steps of one size, however small or noisy a gradient is, so that a choice would settle by chance.
        """
        factors = {"baseline": 5.0, "location": 0.3} if self.settings.model == "retina" else {}
        factors = {"keys": 0.1, "query": 0.1} if self.settings.model == "sparse" else factors
        factors = {"reader.draw.of_hidden": 0.1} if self.settings.model == "draw" else factors
        return next((factor for start, factor in factors.items() if f"{name}.".startswith(f"{start}.")), 1.0)

    def collate(self, examples: Sequence[GlimpseExample]) -> GlimpseBatch:
        images = [self.image(example) for example in examples]
        if len({image.shape for image in images}) > 1:
            shapes = ", ".join(map(str, sorted({image.shape for image in images})))
            raise ValueError(f"glimpse: images of one batch must have one size, got {shapes}; give --batch-size 1")
        labels = [-1 if each.scattered is None else each.scattered.label for each in examples]
        return GlimpseBatch(torch.from_numpy(np.stack(images)), torch.tensor(labels))

    def image(self, example: GlimpseExample) -> np.ndarray:
        """Returns the image (H, W) of an example, from 0 to 1."""
        if example.image is not None:
            return example.image
        assert example.scattered is not None
        return render_picture(example.scattered, self.pictures, side=self.settings.side, pieces=self.settings.clutter)

    def loss(self, model: nn.Module, batch: GlimpseBatch) -> Loss:
        """Computes what the model's way of learning minimises, summed over images."""
        return Loss(model(*batch).sum(), len(batch.labels))

    def predict(self, model: nn.Module, examples: Sequence[GlimpseExample]) -> list[str]:
        """Returns for each image the number of its class."""
        assert isinstance(model, GlimpseClassifier)
        answers = model.answers(self.batch_for(model, examples).images).argmax(-1)
        return [str(answer) for answer in answers.tolist()]

    def assess(self, model: nn.Module, examples: Sequence[GlimpseExample]) -> list[str]:
        """Returns for each image the class, a tab, and JSON: the answer after every look, and where it looked."""
        assert isinstance(model, GlimpseClassifier)
        batch = self.batch_for(model, examples)
        looks = model.look(batch.images)
        answers = looks.log_probs.argmax(-1)
        height, width = batch.images.shape[1:]
        places = ((looks.places + 1) * looks.places.new_tensor([width, height]) - 1) / 2  # in pixels from 0
        lines = []
        for item, example in enumerate(examples):
            more: dict[str, Any] = {"answers": answers[item].tolist(), "numbers": model.numbers_read(height, width)}
            if example.scattered is not None:
                box = self.box(example)
                inside = _share_inside(looks.shares[item], box, (height, width))
                centre = places.new_tensor([(box[1] + box[3] - 1) / 2, (box[0] + box[2] - 1) / 2])
                more["loss"] = -looks.log_probs[item, -1, example.scattered.label].item()
                more["on_object"] = inside.mean().item() if len(inside) == 1 else inside[1:].mean().item()
                more["even"] = (box[2] - box[0]) * (box[3] - box[1]) / (height * width)
                more["distance"] = (places[item, -1] - centre).norm().item()
            lines.append(f"{answers[item, -1].item()}\t{json.dumps(more)}")
        return lines

    def box(self, example: GlimpseExample) -> tuple[int, int, int, int]:
        """Returns the upper row, the left column, and the ends of the rows and columns of the picture."""
        assert example.scattered is not None
        rows, columns = self.pictures[example.scattered.split].pixels.shape[1:]
        row, column = example.scattered.row, example.scattered.column
        return row, column, row + rows, column + columns

    def score(self, examples: Sequence[GlimpseExample], predictions: Sequence[str]) -> dict[str, float]:
        """Computes the accuracy after the last look and the first, what was read, and how much of it is the object."""
        more = [json.loads(line.partition("\t")[2]) for line in predictions]
        known = [(each.scattered.label, found) for each, found in zip(examples, more) if each.scattered is not None]
        n_known = max(1, len(known))
        scores = {
            "accuracy": sum(found["answers"][-1] == label for label, found in known) / n_known,
            "first_look_accuracy": sum(found["answers"][0] == label for label, found in known) / n_known,
        }
        for name, metric in (("loss", "loss"), ("on_object", "on_object"), ("even", "even_attention")):
            scores[metric] = sum(found[name] for _, found in known) / n_known
        scores["distance"] = sum(found["distance"] for _, found in known) / n_known
        return {**scores, "numbers_read": sum(found["numbers"] for found in more) / max(1, len(more))}

    def attend(self, model: nn.Module, examples: Sequence[GlimpseExample]) -> list[AttentionMap]:
        """Returns how much of what each look read is from each cell of 10 × 10 pixels, or of the model's own grid."""
        assert isinstance(model, GlimpseClassifier)
        looks = model.look(self.batch_for(model, examples).images)
        maps = []
        for answers, shares in zip(looks.log_probs.argmax(-1), looks.shares):
            cells = _cells(shares) if self.settings.model in ("retina", "sparse", "draw") else shares
            rows = [f"look {look}: {answer}" for look, answer in enumerate(answers.tolist(), start=1)]
            columns = [f"{row},{column}" for row in range(cells.shape[1]) for column in range(cells.shape[2])]
            maps.append(AttentionMap(rows, columns, cells.flatten(1), self._always_positive))
        return maps

    @property
    def _always_positive(self) -> bool:
        if self.settings.model == "draw":
            return True
        return self.settings.model == "soft" and getattr(self._normalizer, "always_positive", False)

    def draw(self, model: nn.Module, examples: Sequence[GlimpseExample]) -> list[Any]:
        """Returns a figure for each image: the path of the looks over it, and what each of them saw."""
        from omegamax.plots import glimpse_path

        assert isinstance(model, GlimpseClassifier)
        images = self.batch_for(model, examples).images
        looks, figures = model.look(images), []
        for item, example in enumerate(examples):
            views = self._views(model, images[item], looks.places[item], looks.shares[item])
            answers = [str(answer) for answer in looks.log_probs[item].argmax(-1).tolist()]
            box = None if example.scattered is None else self.box(example)
            title = self.settings.variant if example.scattered is None else f"{self.settings.variant}: "
            title += "" if example.scattered is None else f"this is {example.scattered.label}"
            figures.append(glimpse_path(images[item], looks.places[item], views, answers, box=box, title=title))
        return figures

    def _views(self, model: nn.Module, image: Tensor, places: Tensor, shares: Tensor) -> Tensor:
        """Shows what each look saw, (T, H, W): as sharp as the retina saw it, or bright where attention is."""
        if isinstance(model, (RetinaClassifier, SparseClassifier)):
            return torch.stack([model.retina.view(image, place) for place in places])
        sized = nn.functional.interpolate(shares.unsqueeze(1), tuple(image.shape), mode="nearest").squeeze(1)
        return image * (0.15 + 0.85 * sized / sized.amax((-2, -1), keepdim=True).clamp(min=1e-12))


def _normalizer(settings: GlimpseSettings) -> SmoothMax:
    """Returns the normalizer of the grid, or of the places of `sparse`."""
    if settings.model == "grid-tv":
        return GridTV(0.1 if settings.strength is None else settings.strength)
    if settings.model == "sparse" and settings.attention == "softmax":
        settings = dataclasses.replace(settings, attention="sparsemax")
    return make_normalizer(settings)


def _share_inside(shares: Tensor, box: tuple[int, int, int, int], size: tuple[int, int]) -> Tensor:
    """Computes how much of each look (T, rows, columns) is within a box of pixels; a cell counts by its overlap."""
    parts = []
    for axis, n_cells in enumerate(shares.shape[1:]):
        edges = torch.linspace(0, size[axis], n_cells + 1, dtype=shares.dtype, device=shares.device)
        overlap = edges[1:].clamp(max=box[axis + 2]) - edges[:-1].clamp(min=box[axis])
        parts.append(overlap.clamp(min=0) * n_cells / size[axis])
    return torch.einsum("tij,i,j->t", shares, *parts)


def _cells(shares: Tensor) -> Tensor:
    """Sums shares of pixels (T, H, W) over cells of 10 × 10 pixels; those at the end may be smaller."""
    height, width = shares.shape[1:]
    padded = nn.functional.pad(shares, (0, -width % _CELL, 0, -height % _CELL))
    return padded.unflatten(2, (-1, _CELL)).unflatten(1, (-1, _CELL)).sum((2, 4))
