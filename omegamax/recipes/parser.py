"""A dependency parser: for each word its head and its relation, as a tree.

    omegamax train parser --quick
    omegamax train parser --data treebank/ --loss sparsemap --tags upos,xpos

The model is the biaffine parser of Dozat & Manning (ICLR 2017) over a bidirectional LSTM. The arcs are trained with one
of the losses of parser_losses.py, the relations with cross-entropy at the gold arcs. Trees have one root.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.data.conllu import ConlluSentence, looks_like_conllu, parse_conllu, sentence_of_words
from omegamax.data.dependency_checks import is_projective
from omegamax.data.treebank import generate_treebank
from omegamax.data.treebank_files import check_lengths, read_treebank
from omegamax.data.tsv import SPLITS
from omegamax.data.vocabulary import Vocabulary
from omegamax.models.biaffine import BiaffineParser
from omegamax.models.pretrained_encoder import PieceBatch
from omegamax.models.word_features import WordBatch
from omegamax.recipes.parser_decoding import ParserDecoder
from omegamax.recipes.parser_losses import PROJECTIVE_LOSSES, SPARSEMAP_LOSSES, arc_loss, nearest_projective
from omegamax.recipes.parser_metrics import PredictedTree, attachment_scores, tree_counts
from omegamax.recipes.parser_output import Parse
from omegamax.recipes.settings import ParserPrediction, ParserSettings
from omegamax.recipes.word_inputs import SentenceInputs, padded
from omegamax.structures.dependency import DependencyTrees
from omegamax.training.task import AttentionMap, Loss, Task

_MIN_SENTENCES = 100  # of dev and test, if generated
_MAX_TAGS = 10_000
_IGNORED = -100
_DRAWN = 4  # trees of a sentence


class ParserBatch(NamedTuple):
    """The words of some sentences, and their gold trees."""

    words: WordBatch
    pieces: PieceBatch | None  # if there is a pretrained encoder
    tags: Tensor  # (B, N, kinds)
    lengths: Tensor  # (B,)
    heads: Tensor  # (B, N): 0 is the root; −1 beyond the length or if not known
    relations: Tensor  # (B, N): −100 beyond the length or if training had no such relation


class ParserTask(Task):
    """Learns to find the heads and relations of words."""

    name: ClassVar[str] = "parser"
    metric: ClassVar[str] = "las"
    settings_type: ClassVar[type] = ParserSettings
    prediction_type: ClassVar[type | None] = ParserPrediction
    reads_single_lines: ClassVar[bool] = False
    keeps_line_ends: ClassVar[bool] = True
    settings: ParserSettings
    prediction: ParserPrediction

    def __init__(
        self,
        settings: ParserSettings,
        inputs: SentenceInputs,
        tags: Sequence[Vocabulary],
        relations: Sequence[str],
        root_relations: Sequence[str],
        splits: Mapping[str, list[ConlluSentence]] | None = None,
    ) -> None:
        self.settings, self.inputs, self.tags = settings, inputs, tuple(tags)
        self.relations, self.root_relations = tuple(relations), tuple(root_relations)
        self._numbers = {relation: number for number, relation in enumerate(relations)}
        self._splits = splits
        self.prediction = ParserPrediction()

    @classmethod
    def prepare(cls, settings: ParserSettings) -> ParserTask:
        """Reads or generates the treebank; counts the words, tags and relations of its training split."""
        splits = _read_splits(settings)
        train = splits["train"]
        others = [sentence.forms for split in ("dev", "test") for sentence in splits[split]]
        inputs = SentenceInputs.prepare(settings, [sentence.forms for sentence in train], others)
        tags = [
            Vocabulary.of((getattr(sentence, kind) for sentence in train), max_size=_MAX_TAGS)
            for kind in settings.tag_kinds
        ]
        pairs = {
            (head == 0, relation)
            for sentence in train
            for head, relation in zip(sentence.heads or (), sentence.relations)
        }
        relations = sorted({relation for _, relation in pairs})
        return cls(settings, inputs, tags, relations, sorted(name for root, name in pairs if root), splits)

    @classmethod
    def restore(cls, settings: ParserSettings, assets: Mapping[str, Any]) -> ParserTask:
        """Makes the task from the vocabularies of a checkpoint."""
        inputs = SentenceInputs.restore(assets)
        tags = [Vocabulary(tokens) for tokens in assets["tags"]]
        return cls(settings, inputs, tags, assets["relations"], assets["root_relations"])

    def assets(self) -> dict[str, Any]:
        known = {"relations": list(self.relations), "root_relations": list(self.root_relations)}
        return {**self.inputs.assets(), "tags": [tags.to_json() for tags in self.tags], **known}

    def examples(self, split: str) -> Sequence[ConlluSentence]:
        """Returns the sentences of a split, in the order of the file."""
        if self._splits is None:
            self._splits = _read_splits(self.settings)
        return self._splits[split]

    def read(self, lines: Iterable[str]) -> list[ConlluSentence]:
        """Makes a sentence of each line of words, separated by spaces, or of each sentence in CoNLL-U."""
        lines = list(lines)
        kind = self.prediction.input_format
        if kind == "conllu" or (kind == "auto" and looks_like_conllu(lines)):
            found = list(parse_conllu("".join(f"{line}\n" for line in lines), "input", check_trees=False))
        else:
            found = [sentence_of_words(line.split()) for line in lines if line.strip()]
        check_lengths(found, "input")
        return found

    def length(self, example: ConlluSentence) -> int:
        return len(example.forms)

    def fingerprint(self, example: ConlluSentence) -> str:
        tags = [getattr(example, kind) for kind in self.settings.tag_kinds]
        return repr((example.forms, example.heads, example.relations, tags))

    # The model and its loss

    def model(self) -> BiaffineParser:
        settings = self.settings
        return BiaffineParser(
            self.inputs.reader(replace(settings, n_layers=0, dropout=0.0)),  # the parser has its own LSTM
            len(self.relations),
            n_tags=[len(tags) for tags in self.tags],
            tag_size=settings.tag_size,
            hidden_size=settings.hidden_size,
            n_layers=settings.n_layers,
            arc_size=settings.arc_size,
            label_size=settings.label_size,
            dropout=settings.dropout,
        )

    def rate_factor(self, name: str) -> float:
        """Trains a pretrained encoder more slowly than the rest."""
        return self.settings.encoder_rate if name.startswith("reader.encoder.") else 1.0

    def collate(self, examples: Sequence[ConlluSentence]) -> ParserBatch:
        words, pieces = self.inputs.batch([example.forms for example in examples])
        kinds = [
            padded([tags.numbers(getattr(example, kind)) for example in examples])
            for tags, kind in zip(self.tags, self.settings.tag_kinds)
        ]
        heads = padded([example.heads or (-1,) * len(example.forms) for example in examples], -1)
        relations = padded(
            [[self._numbers.get(relation, _IGNORED) for relation in example.relations] for example in examples],
            _IGNORED,
        )
        tags = torch.stack(kinds, -1) if kinds else torch.zeros((*heads.shape, 0), dtype=torch.long)
        return ParserBatch(words, pieces, tags, words.lengths, heads, relations)

    def loss(self, model: nn.Module, batch: ParserBatch) -> Loss:
        """Adds the loss of the trees to the cross-entropy of the relations of their arcs.

        Losses over projective trees train on the projective tree that shares the most arcs with the gold one. A
        temperature t makes t L(scores / t) of a loss L: SparseMAP with t Ω in place of Ω.
        """
        scores = model(batch.words, batch.pieces, batch.tags, batch.lengths, batch.heads)
        heads = batch.heads
        if self.settings.loss in PROJECTIVE_LOSSES:
            heads = _projective_heads(heads, batch.lengths)
        temperature = self.decoder.temperature
        trees = temperature * arc_loss(self.settings.loss, scores.arcs / temperature, heads, batch.lengths)
        relations = nn.functional.cross_entropy(
            scores.labels.flatten(0, 1), batch.relations.flatten(), ignore_index=_IGNORED, reduction="sum"
        )
        return Loss(trees + relations, int(batch.lengths.sum()))

    # Predictions

    @property
    def decoder(self) -> ParserDecoder:
        """Returns what chooses trees by scores."""
        settings = self.settings
        temperature = settings.temperature if settings.loss in SPARSEMAP_LOSSES else 1.0
        return ParserDecoder(settings.loss, settings.decoding, self.relations, self.root_relations, temperature)

    def predict(self, model: nn.Module, examples: Sequence[ConlluSentence]) -> list[str]:
        """Returns each sentence in CoNLL-U, without its last line feed, or as an object of JSON."""
        parses = self.parse(model, examples, self.prediction)
        if self.prediction.output_format == "jsonl":
            return [parse.to_json() for parse in parses]
        return [parse.to_conllu().removesuffix("\n") for parse in parses]

    def parse(
        self, model: nn.Module, examples: Sequence[ConlluSentence], wanted: ParserPrediction | None = None
    ) -> list[Parse]:
        """Parses the sentences of a batch.

        Arguments:
            model: in eval mode
            examples: the sentences
            wanted: whether to compute probabilities or lists of trees; None computes neither
        """
        assert isinstance(model, BiaffineParser)
        return self.decoder.parse(model, self._inputs(model, examples), examples, wanted or ParserPrediction())

    def assess(self, model: nn.Module, examples: Sequence[ConlluSentence]) -> list[str]:
        """Returns heads and relations as JSON, and under SparseMAP how many trees are kept."""
        assert isinstance(model, BiaffineParser)
        found = self.decoder.predict(model, self._inputs(model, examples), examples)
        return [json.dumps(tree) for tree in found]

    def _inputs(self, model: nn.Module, examples: Sequence[ConlluSentence]) -> tuple[Any, ...]:
        batch = self.batch_for(model, examples)
        return batch.words, batch.pieces, batch.tags, batch.lengths

    def score(self, examples: Sequence[ConlluSentence], predictions: Sequence[str]) -> dict[str, float]:
        """Computes attachment scores, and under SparseMAP the number of trees kept and the accuracy by it."""
        found = [PredictedTree(*json.loads(line)) for line in predictions]
        scores = attachment_scores(examples, found)
        if self.settings.loss in SPARSEMAP_LOSSES:
            scores |= tree_counts(examples, found)
        return scores

    def draw(self, model: nn.Module, examples: Sequence[ConlluSentence]) -> list[Any]:
        """Draws the arcs of each sentence with their probabilities, and its trees."""
        kept = self.settings.loss in SPARSEMAP_LOSSES
        wanted = ParserPrediction(probabilities=self.settings.loss != "margin", trees=kept)
        return [_figure(parse, self.settings.loss) for parse in self.parse(model, examples, wanted)]

    def attend(self, model: nn.Module, examples: Sequence[ConlluSentence]) -> list[AttentionMap]:
        """Returns for each word the probabilities of its heads."""
        wanted = ParserPrediction(probabilities=self.settings.loss != "margin")
        dense = self.settings.loss in ("crf", "crf-projective", "softmax")
        maps = []
        for parse in self.parse(model, examples, wanted):
            arcs = parse.arcs
            if arcs is None:
                arcs = DependencyTrees.from_heads(torch.tensor(parse.heads), dtype=torch.float32)
            maps.append(AttentionMap(parse.words, ["ROOT", *parse.words], arcs[:, 1:].T, dense))
        return maps


def _figure(parse: Parse, loss: str) -> Any:
    """Draws the probabilities of arcs, and below them the trees that are kept, or the best tree."""
    from omegamax.plots import dependency_arcs

    trees: dict[str, Tensor] = {}
    relations: dict[str, Sequence[str]] = {}
    if parse.arcs is not None:
        trees[f"arcs under {loss}"] = parse.arcs
    for number, tree in enumerate(parse.trees[:_DRAWN], start=1):
        title = f"tree {number} of {len(parse.trees)}, probability {tree.probability:.2f}"
        trees[title], relations[title] = DependencyTrees.from_heads(torch.tensor(tree.heads)), tree.relations
    if not parse.trees:
        trees["best tree"], relations["best tree"] = (
            DependencyTrees.from_heads(torch.tensor(parse.heads)),
            parse.relations,
        )
    return dependency_arcs(trees, parse.words, relations)


def _projective_heads(heads: Tensor, lengths: Tensor) -> Tensor:
    crossing = [not is_projective(row[:n]) for row, n in zip(heads.tolist(), lengths.tolist())]
    if not any(crossing):
        return heads
    rows = torch.tensor(crossing, device=heads.device)
    changed = heads.clone()
    changed[rows] = nearest_projective(heads[rows], lengths[rows]).to(heads)
    return changed


def _read_splits(settings: ParserSettings) -> dict[str, list[ConlluSentence]]:
    """Reads or generates the sentences; leaves out training sentences that are longer than the settings allow."""
    if settings.data is None:
        n_others = max(_MIN_SENTENCES, settings.sentences // 10)
        counts = {split: settings.sentences if split == "train" else n_others for split in SPLITS}
        return {split: generate_treebank(counts[split], split, seed=settings.data_seed) for split in SPLITS}
    splits = read_treebank(settings.data)
    for split in ("dev", "test"):
        check_lengths(splits[split], f"{settings.data}, {split} split")
    short = [sentence for sentence in splits["train"] if len(sentence.forms) <= settings.max_length]
    if not short:
        raise ValueError(
            f"{settings.data}: no training sentence has at most {settings.max_length} words; raise --max-length"
        )
    return {**splits, "train": short}
