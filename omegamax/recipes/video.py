"""Describes short clips of moving digits: "a three moves left, then an eight falls".

    omegamax train video --model both --attention fusedmax
    omegamax attend runs/video-both-fusedmax "a three moves left, then an eight falls" --out frames.png
    echo clip.npy | omegamax predict runs/video-both-fusedmax

Two ways to see time are compared, as Yao et al. (ICCV 2015) did. Attention looks at the frames of the whole clip anew
before each word, so it can follow the order of events. A 3-D convolution sees a few neighbouring frames at once, so it
can tell directions. `--model` has one of them, both, or neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from omegamax.attention.weight_counts import WeightCounts, count_weights, weight_metrics
from omegamax.data.moving_digits import (
    DIGITS,
    MOTIONS,
    SIZE,
    Clip,
    clip_of_sentence,
    draw_clips,
    load_digit_images,
    read_frames,
    read_sentence,
    render_clip,
    write_sentence,
)
from omegamax.data.vocabulary import (
    END,
    JOINER,
    SPECIAL,
    Vocabulary,
    join_tokens,
    split_text,
)
from omegamax.models.video_describer import FrameEncoder, MotionEncoder, VideoDescriber
from omegamax.recipes.description import Description, n_examples, target_losses, text_scores, total
from omegamax.recipes.metrics import import_sacrebleu
from omegamax.recipes.normalizers import make_normalizer
from omegamax.recipes.settings import VideoSettings
from omegamax.smoothmax import SmoothMax
from omegamax.training.task import AttentionMap

_ABOUT_NOTHING = {"a", "an", "then", ",", f"{JOINER},", SPECIAL[END]}  # words that are about no event


class VideoExample(NamedTuple):
    """A clip of moving digits, or frames of a file; the target is "" where it is not known."""

    clip: Clip | None
    target: str
    frames: np.ndarray | None = None  # (T, 16, 16)


class VideoBatch(NamedTuple):
    """Clips and their descriptions."""

    frames: Tensor  # (B, T, 16, 16)
    lengths: Tensor  # (B,)
    target: Tensor  # (B, words + 2): START, words, END, PADDING


class Video(Description):
    """Learns to say what happens in clips."""

    name: ClassVar[str] = "video"
    settings_type: ClassVar[type] = VideoSettings
    settings: VideoSettings

    @classmethod
    def normalizer(cls, settings: VideoSettings) -> SmoothMax:
        return make_normalizer(settings)

    @classmethod
    def prepare(cls, settings: VideoSettings) -> Video:
        """Makes the task; clips are drawn when they are asked for."""
        import_sacrebleu()
        load_digit_images()
        every = write_sentence([(digit, motion) for digit in range(len(DIGITS)) for motion in MOTIONS])
        return cls(settings, Vocabulary.of([split_text(every, "word")], max_size=1000).to_json())

    def examples(self, split: str) -> Sequence[VideoExample]:
        """Returns the clips of a split; each split shows digits of its own."""
        if split not in self._splits:
            settings = self.settings
            count = n_examples(settings.clips, split)
            clips = draw_clips(count, split, max_events=settings.max_events, seed=settings.data_seed)
            self._splits[split] = [VideoExample(clip, clip.sentence) for clip in clips]
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[VideoExample]:
        """Makes an example of each line: the path of a .npy file with frames, or a sentence, which is then played."""
        found = []
        for line in map(str.strip, lines):
            if line.endswith(".npy"):
                found.append(VideoExample(None, "", read_frames(Path(line))))
            else:
                clip = clip_of_sentence(line, seed=self.settings.data_seed)
                found.append(VideoExample(clip, clip.sentence))
        return found

    def length(self, example: VideoExample) -> int:
        """Returns the number of frames."""
        return len(_frames(example)) if example.clip is None else example.clip.n_frames

    def model(self) -> nn.Module:
        """Returns the network that the settings name."""
        settings = self.settings
        kinds = (FrameEncoder, MotionEncoder) if settings.model in ("conv3d", "both") else (FrameEncoder,)
        return VideoDescriber(
            [kind(settings.frame_size, size=SIZE) for kind in kinds],
            len(self.vocabulary),
            normalizer=self._normalizer if settings.model in ("attention", "both") else None,
            positions=settings.positions == "yes",
            embedding_size=settings.embedding_size,
            hidden_size=settings.hidden_size,
            dropout=settings.dropout,
        )

    def collate(self, examples: Sequence[VideoExample]) -> VideoBatch:
        frames = [torch.from_numpy(_frames(example)) for example in examples]
        return VideoBatch(
            nn.utils.rnn.pad_sequence(frames, batch_first=True),
            torch.tensor([len(each) for each in frames]),
            self.target_of([split_text(example.target, "word") for example in examples]),
        )

    def text(self, tokens: Sequence[str]) -> str:
        return join_tokens(tokens, "word")

    def assess(self, model: nn.Module, examples: Sequence[VideoExample]) -> list[str]:
        """Returns for each clip the description, a tab, and JSON: the loss of the target, and where its words look."""
        assert isinstance(model, VideoDescriber)
        batch = self.batch_for(model, examples)
        weights, outputs, found = model.attend(*batch), self.search(model, batch), target_losses(model, batch)
        lines = []
        for item, (example, output, more) in enumerate(zip(examples, outputs, found)):
            true = self.true_frames(example, split_text(example.target, "word"))
            if weights is not None and true is not None and true.any():
                looked = weights[item, : len(true), : true.shape[1]].cpu()
                share = (looked * true).sum(-1)[true.any(-1)]
                more["on_event"] = float(share.double().sum())
                more["counts"] = count_weights(looked, always_positive=self._normalizer.always_positive)
            if true is not None:
                more |= {"content_words": int(true.any(-1).sum()), "even": float(true.double().mean(-1).sum())}
            lines.append(f"{self.text_of(output)}\t{json.dumps(more)}")
        return lines

    def true_frames(self, example: VideoExample, words: Sequence[str]) -> Tensor | None:
        """Returns for each word (words, frames) the frames of the event that it is about; None for frames of a file.

        Words such as "a" and "then" are about none. `words` may say more events than there are, which are about none.
        """
        if example.clip is None:
            return None
        true = torch.zeros(len(words), example.clip.n_frames, dtype=torch.bool)
        event = 0
        for place, word in enumerate(words):
            event += word == "then"
            if word not in _ABOUT_NOTHING and event < len(example.clip.events):
                _, _, _, begin, length, *_ = example.clip.events[event]
                true[place, begin : begin + length] = True
        return true

    def score(self, examples: Sequence[VideoExample], predictions: Sequence[str]) -> dict[str, float]:
        """Computes BLEU, exact match, perplexity, and which part is wrong: digits, what they do, or their order."""
        lines = [line.partition("\t") for line in predictions]
        texts, more = [line[0] for line in lines], [json.loads(line[2]) for line in lines]
        targets = [example.target for example in examples]
        scores = {
            **text_scores(texts, targets, more),
            **_parts([_read(text) for text in texts], [_read(target) for target in targets]),
        }
        if any("on_event" in each for each in more):
            n_words = max(1, total(more, "content_words"))
            scores["attention_on_event"] = total(more, "on_event") / n_words
            scores["even_attention"] = total(more, "even") / n_words
            scores |= weight_metrics(WeightCounts(*each["counts"]) for each in more if "counts" in each)
        return scores

    def attend(self, model: nn.Module, examples: Sequence[VideoExample]) -> list[AttentionMap]:
        """Returns for each word of a description how much it looks at each frame; nothing without attention."""
        outputs = self.write(model, examples)
        if outputs.weights is None:
            return []
        maps = []
        for example, tokens, weights in zip(examples, outputs.tokens, outputs.weights):
            words = [SPECIAL[END] if number == END else self._label(number) for number in tokens]
            columns = [str(frame) for frame in range(self.length(example))]
            rows = weights[: len(words), : len(columns)]
            maps.append(AttentionMap(words, columns, rows, self._normalizer.always_positive))
        return maps

    def _label(self, number: int) -> str:
        return self.text(self.vocabulary.tokens([number]))

    def draw(self, model: nn.Module, examples: Sequence[VideoExample]) -> list[Any]:
        """Returns a figure for each clip: its frames, and how much each word looks at them; true frames are marked."""
        from omegamax.plots import frame_attention

        figures = []
        for example, found in zip(examples, self.attend(model, examples)):
            figures.append(
                frame_attention(
                    found.weights,
                    torch.from_numpy(_frames(example)),
                    found.rows,
                    marked=self.true_frames(example, found.rows),
                    title=f"{self.settings.model}, {self.settings.attention}",
                    exact_zeros=not found.always_positive,
                )
            )
        return figures


def _frames(example: VideoExample) -> np.ndarray:
    if example.frames is not None:
        return example.frames
    assert example.clip is not None
    return render_clip(example.clip)


def _read(text: str) -> list[tuple[int, str]] | None:
    """Returns the events of a description; None if it is not a sentence."""
    try:
        return read_sentence(text)
    except ValueError:
        return None


def _parts(said: Sequence[Any], wanted: Sequence[Any]) -> dict[str, float]:
    """Returns the share of clips whose digits are right, and whose motions are, in order and in any order."""
    scores = {}
    for place, name in enumerate(("digits", "motions")):
        pairs = [
            ([event[place] for event in one], [event[place] for event in other] if other else None)
            for one, other in zip(wanted, said)
        ]
        scores[name] = sum(one == other for one, other in pairs) / max(1, len(pairs))
        same = (other is not None and sorted(one) == sorted(other) for one, other in pairs)
        scores[f"{name}_any_order"] = sum(same) / max(1, len(pairs))
    return scores
