"""How a language model continues texts: token by token, with the keys and values of earlier tokens kept in a cache."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax.attention.transformer.causal_transformer import CausalTransformer
from omegamax.data.vocabulary import END, PADDING, START, UNKNOWN


def continue_texts(
    model: CausalTransformer,
    texts: Sequence[Sequence[int]],
    *,
    max_length: int,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[list[int]]:
    """Returns the tokens that follow each text, up to the end token, which is left out, or `max_length` tokens.

    At temperature 0 each token is the most likely one; otherwise it is drawn from softmax(logits / temperature), with
    random numbers that depend on the seed and on the text, not on the other texts.

    Arguments:
        model: in eval mode
        texts: tokens of each, at least one
        max_length: how many tokens are written at most
        temperature: of the draws; 0 takes the most likely token
        seed: of the random numbers
    """
    written: list[list[int]] = [[] for _ in texts]
    by_length: dict[int, list[int]] = defaultdict(list)  # a cache holds texts of one length
    for place, text in enumerate(texts):
        by_length[len(text)].append(place)
    for places in by_length.values():
        several = [texts[place] for place in places]
        generators = [_generator(seed, text) for text in several]
        for place, tokens in zip(places, _continue(model, several, generators, max_length, temperature)):
            written[place] = tokens
    return written


def _continue(
    model: CausalTransformer,
    texts: Sequence[Sequence[int]],
    generators: Sequence[torch.Generator],
    max_length: int,
    temperature: float,
) -> list[list[int]]:
    device = next(model.parameters()).device
    tokens = torch.tensor([list(text) for text in texts], device=device)
    written: list[list[int]] = [[] for _ in texts]
    unfinished = list(range(len(texts)))
    cache = None
    for _ in range(max_length):
        stepped = model.step(tokens, cache)
        logits = stepped.output[:, -1].float()
        logits[:, [PADDING, UNKNOWN, START]] = -torch.inf  # no text has them
        chosen = _choose(logits, [generators[place] for place in unfinished], temperature)
        kept = [row for row, token in enumerate(chosen) if token != END]
        for row in kept:
            written[unfinished[row]].append(chosen[row])
        if not kept:
            break
        cache = stepped.cache
        if len(kept) < len(unfinished):
            cache = cache.select(torch.tensor(kept, device=device))
        unfinished = [unfinished[row] for row in kept]
        tokens = torch.tensor([[chosen[row]] for row in kept], device=device)
    return written


def _choose(logits: Tensor, generators: Sequence[torch.Generator], temperature: float) -> list[int]:
    if temperature == 0:
        return logits.argmax(-1).tolist()
    top = logits.max(-1, keepdim=True).values
    probabilities = torch.softmax((logits - top).double() / temperature, -1).cpu()  # the same draws on every device
    return [int(torch.multinomial(row, 1, generator=draws)) for row, draws in zip(probabilities, generators)]


def _generator(seed: int, text: Sequence[int]) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{list(text)}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
