"""A dependency parser: for each word its head and its relation, as a tree.

    omegamax train parser --quick
    omegamax train parser --data treebank/ --loss sparsemap --tags upos,xpos

The model is the biaffine parser of Dozat & Manning (ICLR 2017) over a bidirectional LSTM. The arcs are trained with one
of the losses of parser_losses.py, the relations with cross-entropy at the gold arcs. Trees have one root.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from omegamax.data.conllu import ConlluSentence, looks_like_conllu, parse_conllu, sentence_of_words
from omegamax.data.dependency_checks import is_projective
from omegamax.data.treebank import generate_treebank
from omegamax.data.treebank_files import check_lengths, read_treebank
from omegamax.data.tsv import SPLITS
from omegamax.data.vocabulary import Vocabulary
from omegamax.models.biaffine import BiaffineParser, WordStates
from omegamax.models.word_features import CharacterCNN, CharacterLSTM, WordFeatures
from omegamax.recipes.parser_losses import (
    PROJECTIVE_LOSSES,
    SPARSEMAP_LOSSES,
    TreeList,
    arc_loss,
    arc_probabilities,
    best_trees,
    kept_trees,
    nearest_projective,
    sparse_trees,
    structure_of,
)
from omegamax.recipes.parser_metrics import PredictedTree, attachment_scores, tree_counts
from omegamax.recipes.parser_output import Parse, RankedTree
from omegamax.recipes.settings import ParserSettings
from omegamax.recipes.word_inputs import PieceInputs, WordInputs, padded
from omegamax.structures.arborescence import Arborescence
from omegamax.structures.dependency import DependencyTrees
from omegamax.structures.projective_tree import ProjectiveTree
from omegamax.training.task import AttentionMap, Loss, Task

_MIN_SENTENCES = 100  # of dev and test, if generated
_MAX_TAGS = 10_000
_IGNORED = -100


class ParserBatch(NamedTuple):
    """The words of some sentences, and their gold trees."""

    inputs: Any  # WordBatch or PieceBatch
    tags: Tensor  # (B, N, kinds)
    lengths: Tensor  # (B,)
    heads: Tensor  # (B, N): 0 is the root; −1 beyond the length or if not known
    relations: Tensor  # (B, N): −100 beyond the length or if training had no such relation


class ParserTask(Task):
    """Learns to parse."""

    name: ClassVar[str] = "parser"
    metric: ClassVar[str] = "las"
    settings_type: ClassVar[type] = ParserSettings
    settings: ParserSettings

    def __init__(
        self,
        settings: ParserSettings,
        inputs: WordInputs | PieceInputs,
        tags: Sequence[Vocabulary],
        relations: Sequence[str],
        root_relations: Sequence[str],
        splits: Mapping[str, list[ConlluSentence]] | None = None,
    ) -> None:
        self.settings, self.inputs, self.tags = settings, inputs, tuple(tags)
        self.relations, self.root_relations = tuple(relations), tuple(root_relations)
        self._numbers = {relation: number for number, relation in enumerate(relations)}
        self._splits = splits

    @classmethod
    def prepare(cls, settings: ParserSettings) -> ParserTask:
        """Reads or generates the treebank; counts the words, tags and relations of its training split."""
        splits = _read_splits(settings)
        train = splits["train"]
        words = [sentence.forms for sentence in train]
        inputs: WordInputs | PieceInputs
        if settings.encoder:
            inputs = PieceInputs.from_directory(settings.encoder)
        else:
            others = (sentence.forms for split in ("dev", "test") for sentence in splits[split])
            inputs = WordInputs.of(words, min_count=settings.min_count, vectors=settings.vectors or None, others=others)
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
        inputs = PieceInputs.restore(assets) if settings.encoder else WordInputs.restore(assets)
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
        if looks_like_conllu(lines):
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
            self._words(),
            len(self.relations),
            n_tags=[len(tags) for tags in self.tags],
            tag_size=settings.tag_size,
            hidden_size=settings.hidden_size,
            n_layers=settings.n_layers,
            arc_size=settings.arc_size,
            label_size=settings.label_size,
            dropout=settings.dropout,
        )

    def _words(self) -> nn.Module:
        settings = self.settings
        if isinstance(self.inputs, PieceInputs):
            return self.inputs.encoder()
        characters: CharacterLSTM | CharacterCNN | None = None
        if settings.characters != "none":
            kind = CharacterLSTM if settings.characters == "lstm" else CharacterCNN
            characters = kind(len(self.inputs.letters), settings.character_size, letter_size=settings.letter_size)
        words = WordFeatures(
            len(self.inputs.words),
            settings.word_size,
            characters=characters,
            shape_size=0,
            word_dropout=settings.word_dropout,
        )
        known = self.inputs.vector_rows()
        if known is not None and words.words is not None and words.words.weight.device.type != "meta":
            words.load_vectors(*known)
        return words

    def collate(self, examples: Sequence[ConlluSentence]) -> ParserBatch:
        inputs = self.inputs.batch([example.forms for example in examples])
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
        lengths = torch.tensor([len(example.forms) for example in examples])
        return ParserBatch(inputs, tags, lengths, heads, relations)

    def loss(self, model: nn.Module, batch: ParserBatch) -> Loss:
        """Adds the loss of the trees to the cross-entropy of the relations of their arcs.

        Losses over projective trees train on the projective tree that shares the most arcs with the gold one.
        """
        scores = model(batch.inputs, batch.tags, batch.lengths, batch.heads)
        heads = batch.heads
        if self.settings.loss in PROJECTIVE_LOSSES:
            heads = _projective_heads(heads, batch.lengths)
        trees = arc_loss(self.settings.loss, scores.arcs, heads, batch.lengths)
        relations = nn.functional.cross_entropy(
            scores.labels.flatten(0, 1), batch.relations.flatten(), ignore_index=_IGNORED, reduction="sum"
        )
        return Loss(trees + relations, int(batch.lengths.sum()))

    # Predictions

    def structure(self) -> DependencyTrees:
        """Returns the trees among which the best is chosen when decoding."""
        if self.settings.decoding == "auto":
            return structure_of(self.settings.loss)
        return ProjectiveTree() if self.settings.decoding == "projective" else Arborescence()

    def predict(self, model: nn.Module, examples: Sequence[ConlluSentence]) -> list[str]:
        """Returns each sentence in CoNLL-U, without its last line feed."""
        return [parse.to_conllu().removesuffix("\n") for parse in self.parse(model, examples)]

    def parse(
        self,
        model: nn.Module,
        examples: Sequence[ConlluSentence],
        *,
        probabilities: bool = False,
        trees: bool = False,
        k_best: int = 0,
    ) -> list[Parse]:
        """Parses the sentences of a batch.

        Arguments:
            model: in eval mode
            examples: the sentences
            probabilities: whether to compute those of all arcs
            trees: whether to list the trees that SparseMAP keeps
            k_best: how many of the best trees to list; 0 lists none
        """
        assert isinstance(model, BiaffineParser)
        batch = self.batch_for(model, examples)
        states = model.states(batch.inputs, batch.tags, batch.lengths)
        structure, lengths = self.structure(), batch.lengths
        heads = structure.heads(structure.map(states.arcs, lengths=lengths))
        relations = self._relations(model, states, heads)
        arcs = arc_probabilities(self.settings.loss, states.arcs, lengths).cpu() if probabilities else None
        ranked: list[tuple[RankedTree, ...]] = [()] * len(examples)
        if trees:
            ranked = self._ranked(model, states, sparse_trees(self.settings.loss, states.arcs, lengths), True)
        elif k_best:
            ranked = self._ranked(model, states, best_trees(structure, states.arcs, lengths, k_best), False)
        found = []
        for number, example in enumerate(examples):
            n = len(example.forms)
            of_arcs = None if arcs is None else arcs[number, : n + 1, : n + 1]
            chosen = tuple(heads[number, :n].tolist())
            found.append(Parse(example.forms, chosen, tuple(relations[number][:n]), of_arcs, ranked[number], example))
        return found

    def _relations(self, model: BiaffineParser, states: WordStates, heads: Tensor) -> list[list[str]]:
        """Chooses a relation for each arc: those of the root are for the root alone, if training had it so."""
        scores = model.labels(states, heads)
        root = torch.tensor([relation in self.root_relations for relation in self.relations], device=scores.device)
        if bool(root.any()) and not bool(root.all()):
            allowed = torch.where((heads == 0).unsqueeze(-1), root, self._elsewhere(root))
            scores = scores.masked_fill(~allowed, -torch.inf)
        return [[self.relations[number] for number in row] for row in scores.argmax(-1).tolist()]

    def _elsewhere(self, root: Tensor) -> Tensor:
        """Returns which relations words below the root may have: all, or those but `root` itself."""
        return ~root if int(root.sum()) == 1 else torch.ones_like(root)

    def _ranked(
        self, model: BiaffineParser, states: WordStates, found: TreeList, weights_are_probabilities: bool
    ) -> list[tuple[RankedTree, ...]]:
        n_trees = found.heads.shape[1]
        relations = [self._relations(model, states, found.heads[:, number]) for number in range(n_trees)]
        there = found.heads >= 0
        arcs = states.arcs[:, :, 1:].gather(1, found.heads.clamp(min=0))  # (B, trees, N)
        scores = torch.where(there, arcs, 0).sum(-1).tolist()
        lists = []
        for item, weights in enumerate(found.weights.tolist()):
            ranked = []
            for number, weight in enumerate(weights):
                if weight == (0 if weights_are_probabilities else -torch.inf):
                    continue
                heads = [head for head in found.heads[item, number].tolist() if head >= 0]
                known = weight if weights_are_probabilities else None
                names = tuple(relations[number][item][: len(heads)])
                ranked.append(RankedTree(tuple(heads), names, known, scores[item][number]))
            lists.append(tuple(ranked))
        return lists

    def assess(self, model: nn.Module, examples: Sequence[ConlluSentence]) -> list[str]:
        """Returns heads and relations as JSON, and under SparseMAP how many trees are kept."""
        assert isinstance(model, BiaffineParser)
        batch = self.batch_for(model, examples)
        states = model.states(batch.inputs, batch.tags, batch.lengths)
        structure = self.structure()
        heads = structure.heads(structure.map(states.arcs, lengths=batch.lengths))
        relations = self._relations(model, states, heads)
        n_trees = [0] * len(examples)
        if self.settings.loss in SPARSEMAP_LOSSES:
            n_trees = (kept_trees(states.arcs, batch.lengths).probabilities > 0).sum(-1).tolist()
        sizes = [len(example.forms) for example in examples]
        rows = zip(sizes, heads.tolist(), relations, n_trees)
        return [json.dumps(PredictedTree(found[:n], names[:n], trees)) for n, found, names, trees in rows]

    def score(self, examples: Sequence[ConlluSentence], predictions: Sequence[str]) -> dict[str, float]:
        """Computes attachment scores, and under SparseMAP the number of trees kept and the accuracy by it."""
        found = [PredictedTree(*json.loads(line)) for line in predictions]
        scores = attachment_scores(examples, found)
        if self.settings.loss in SPARSEMAP_LOSSES:
            scores |= tree_counts(examples, found)
        return scores

    def attend(self, model: nn.Module, examples: Sequence[ConlluSentence]) -> list[AttentionMap]:
        """Returns for each word the probabilities of its heads."""
        maps = []
        for parse in self.parse(model, examples, probabilities=self.settings.loss != "margin"):
            arcs = parse.arcs
            if arcs is None:
                arcs = structure_of("margin").from_heads(torch.tensor(parse.heads), dtype=torch.float32)
            dense = self.settings.loss in ("crf", "crf-projective", "softmax")
            maps.append(AttentionMap(parse.words, ["ROOT", *parse.words], arcs[:, 1:].T, dense))
        return maps


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
