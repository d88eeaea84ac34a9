"""Multi-head attention: the constructor, the call and the weights of `torch.nn.MultiheadAttention`, and any normalizer.

    head_i = argmax_Ω(Q W_i^Q (K W_i^K)ᵀ / √d) V W_i^V,      output = [head_1; ...; head_h] W^O

Vaswani et al., "Attention is all you need", NeurIPS 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from omegamax.attention.masking import finite_where_unread, is_read, zero_idle, zero_unread
from omegamax.attention.multihead_masks import Masks, check_masks, read_masks
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.sparse_layers import sparse_output
from omegamax.attention.whole_sequence import check_whole_sequence
from omegamax.module_repr import shown
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


_NO_MASKS = Masks(None, None)


class MultiheadAttention(nn.MultiheadAttention):
    """`torch.nn.MultiheadAttention` with `normalizer=`: same arguments, same state_dict, same results under Shannon.

    As in PyTorch, and unlike the rest of this library, True in `attn_mask` and `key_padding_mask` means "may NOT
    attend". Padding may hold anything: where PyTorch's layer gives NaN, because masked keys or values hold NaN or
    infinities or because a query may attend to nothing, the result and all gradients are those of zeros in their place.
    That goes for self-attention, `layer(x, x, x)`, with such numbers at padded places of x too.

    A normalizer that sees the whole (queries, keys) matrix does so for every head; parameters of a layer such as
    `Entmax(alpha=Above(1.0, start=1.5, shape=(heads, 1, 1)))` broadcast against scores (batch, heads, queries, keys).
    `key_size` is the paper's d_k, the features of a head's queries and keys; by default embed_dim / num_heads, as
    PyTorch has it always.

    Arguments:
        embed_dim: features of a query and of the output
        num_heads: how many heads there are
        dropout: the share of weights that training drops
        bias: whether projections have a bias
        add_bias_kv: whether a learned key and value are added
        add_zero_attn: whether a key and value of zeros are added
        kdim: features of a key; None takes `embed_dim`
        vdim: features of a value; None takes `embed_dim`
        batch_first: whether tensors are (batch, length, features)
        device: where the parameters are made
        dtype: the type of the parameters
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`
        key_size: features of a head's queries and keys; None takes embed_dim / num_heads
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        normalizer: Normalizer = _SHANNON,
        key_size: int | None = None,
    ) -> None:
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        if key_size is not None and key_size * num_heads != embed_dim:
            self._resize_keys(key_size * num_heads)
        check_normalizer("MultiheadAttention", normalizer)
        self.normalizer = normalizer
        # TransformerEncoderLayer's fast path, in eval without gradients, would compute softmax with the weights of this
        # layer and never call it. This flag keeps it off; `_project` does not read it.
        self._qkv_same_embed_dim = False

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output and the weights (None unless needed), as PyTorch's layer does.

        Arguments:
            query: (Q, batch, embed_dim), or (batch, Q, embed_dim) with `batch_first`; without a batch (Q, embed_dim)
            key: the same with K and `kdim`
            value: the same with K and `vdim`
            key_padding_mask: (batch, K), True means "may NOT attend"
            need_weights: whether weights are returned
            attn_mask: (Q, K) or (batch · heads, Q, K), True means "may NOT attend"; a floating one is added to the
                scores
            average_attn_weights: whether returned weights are averaged over heads
            is_causal: a hint that `attn_mask` is causal: without `need_weights` it is then not read, as in PyTorch

        With `need_weights=False`, long sequences take `sparse_attention` where the normalizer is sparse: faster,
        without a (Q, K) tensor, differentiable once. Ask for the weights to differentiate twice.
        """
        if query.is_nested:
            masked = key_padding_mask is not None or attn_mask is not None
            return self._forward_nested(query, key, value, masked, need_weights, average_attn_weights)
        unbatched = query.dim() == 2
        if unbatched:
            query, key, value = _each(lambda x: x.unsqueeze(0), query, key, value)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = _each(lambda x: x.transpose(0, 1), query, key, value)
        if is_causal and attn_mask is None:
            raise ValueError(
                "MultiheadAttention: is_causal is a hint about attn_mask, as in PyTorch, got no attn_mask; pass the "
                "mask itself, for example nn.Transformer.generate_square_subsequent_mask(n)"
            )
        self._check(query, key, value, key_padding_mask, attn_mask)
        masks = _NO_MASKS
        if key_padding_mask is not None or attn_mask is not None:
            causal = is_causal and not need_weights and query.shape[1] == key.shape[1]
            masks = read_masks(len(query), self.num_heads, key_padding_mask, None if causal else attn_mask)
            masks = masks._replace(causal=causal)
            if masks.allowed is not None:
                query, key, value = self._without_padding(query, key, value, masks)
        output, weights = self._attend(*self._project(query, key, value), masks, need_weights=need_weights)
        if unbatched:
            output, weights = output.squeeze(0), None if weights is None else weights.squeeze(0)
        elif not self.batch_first:
            output = output.transpose(0, 1)
        if weights is None:
            return output, None
        return output, weights.mean(-3) if average_attn_weights else weights

    def _forward_nested(
        self, query: Tensor, key: Tensor, value: Tensor, masked: bool, need_weights: bool, average_attn_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attends within a nested tensor, which `nn.TransformerEncoder` makes of a padded one in eval.

        Weights, if they are needed, are padded.
        """
        if masked or query is not key or key is not value or query.layout is not torch.strided or not self.batch_first:
            raise ValueError(
                "MultiheadAttention: a nested tensor must be query, key and value in one, strided, without masks and "
                "with batch_first=True, got something else; pad it with .to_padded_tensor(0.0), and pass a "
                "key_padding_mask"
            )
        lengths = [len(item) for item in query.unbind()]
        x = query.to_padded_tensor(0.0)
        padding = torch.arange(x.shape[1], device=x.device) >= torch.tensor(lengths, device=x.device).unsqueeze(-1)
        output, weights = self.forward(
            x, x, x, key_padding_mask=padding, need_weights=need_weights, average_attn_weights=average_attn_weights
        )
        return torch.nested.as_nested_tensor([row[:length] for row, length in zip(output, lengths)]), weights

    def _check(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None
    ) -> None:
        """Checks shapes and kinds. The batch comes first."""
        check_whole_sequence("MultiheadAttention", query, key, value)
        (batch, n_queries, _), n_keys = query.shape, key.shape[1]
        if key.dim() != 3 or key.shape[:2] != value.shape[:2] or len(key) != batch:
            raise ValueError(
                "MultiheadAttention: query, key and value must have one batch, and one value per key, got (batch, "
                f"length, features) = {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}; batch_first="
                f"{self.batch_first} says which axis is the batch"
            )
        check_masks(batch, self.num_heads, n_queries, n_keys, key_padding_mask, attn_mask)

    def _without_padding(
        self, query: Tensor, key: Tensor, value: Tensor, masks: Masks
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Replaces padding by zeros, before the projections see it."""
        assert masks.allowed is not None
        allowed = masks.allowed.any(1)  # by some head
        if query is key:  # padding is among the queries too, where PyTorch takes finite numbers as they are
            query = seen = finite_where_unread(key, allowed)
        else:
            seen = zero_unread(key, allowed, query.shape[1])
            always = self.bias_k is not None or self.add_zero_attn  # there is something to attend to
            query = query if always else zero_idle(query, allowed, key.shape[1], causal=masks.causal)
        return query, seen, seen if value is key else zero_unread(value, allowed, query.shape[1])

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projects queries, keys and values to (batch, length, features of all heads) each."""
        if query is key and key is value and self.in_proj_weight is not None:  # one product instead of three
            q, k, v = nn.functional.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            q, k, v = (nn.functional.linear(x, *by) for x, by in zip((query, key, value), self._projections()))
        return q, k, v

    def _projections(self) -> list[tuple[Tensor, Tensor | None]]:
        """Returns weight and bias for queries, keys and values; they are stored as one matrix if the sizes agree."""
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        if self.in_proj_bias is None:
            return [(weight, None) for weight in weights]
        return list(zip(weights, self.in_proj_bias.split([len(weight) for weight in weights])))

    def _resize_keys(self, size: int) -> None:
        """Gives queries and keys another size than values, which PyTorch's layer cannot do."""
        if size <= 0 or self.bias_k is not None:
            raise ValueError(
                f"MultiheadAttention: key_size must be positive and without add_bias_kv, got {size // self.num_heads} "
                f"and add_bias_kv={self.bias_k is not None}; leave one of them out"
            )
        new = self.out_proj.weight.new_empty
        self.register_parameter("in_proj_weight", None)
        self.q_proj_weight = nn.Parameter(new(size, self.embed_dim))
        self.k_proj_weight = nn.Parameter(new(size, self.kdim))
        self.v_proj_weight = nn.Parameter(new(self.embed_dim, self.vdim))
        for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            self.in_proj_bias = nn.Parameter(new(2 * size + self.embed_dim).zero_())

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, masks: Masks, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Turns scores into weights and weights into outputs; no other method of this layer does so.

        Projected queries, keys and values (batch, length, features of all heads) give the output (batch, queries,
        embed_dim) and, where they are needed, weights (batch, heads, queries, keys).
        """
        if self.bias_k is not None or self.add_zero_attn:
            key, value, masks = self._with_extra_keys(key, value, masks.merged(query, key))
        per_head = (self.num_heads, -1)
        query = query.unflatten(-1, per_head).transpose(1, 2)  # (batch, heads, queries, features of a head)
        key = key.unflatten(-1, per_head).transpose(1, 2)
        value = value.unflatten(-1, per_head).transpose(1, 2)
        heads = weights = None
        if not need_weights:
            bias, allowed, causal = masks
            dropout = self.dropout if self.training else 0.0
            heads = sparse_output(
                query, key, value, self.normalizer, mask=allowed, causal=causal, bias=bias, dropout=dropout
            )
        if heads is None:
            heads, weights = self._attend_densely(query, key, value, masks.merged(query, key))
        return self.out_proj(heads.transpose(1, 2).flatten(-2)), weights if need_weights else None

    def _attend_densely(self, query: Tensor, key: Tensor, value: Tensor, masks: Masks) -> tuple[Tensor, Tensor]:
        """Computes the outputs and weights of all heads from dense scores (batch, heads, queries, keys)."""
        bias, allowed, _ = masks
        if allowed is not None:  # a projection may have overflowed where nobody looks
            read = is_read(allowed, query.shape[-2], key.shape[-2])
            key, value = torch.where(read, key, 0), torch.where(read, value, 0)
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
        scores = scores if bias is None else scores + bias.to(scores.dtype)
        weights = normalize(self.normalizer, scores, allowed)
        weights = nn.functional.dropout(weights, self.dropout, self.training)
        return weights @ value, weights

    def _with_extra_keys(self, key: Tensor, value: Tensor, masks: Masks) -> tuple[Tensor, Tensor, Masks]:
        """Appends the learned key and the key of zeros, which every query may attend to."""
        batch, n_given = key.shape[:2]
        if self.bias_k is not None and self.bias_v is not None:
            key = torch.cat([key, self.bias_k.expand(batch, 1, -1)], 1)
            value = torch.cat([value, self.bias_v.expand(batch, 1, -1)], 1)
        if self.add_zero_attn:
            key, value = (nn.functional.pad(x, (0, 0, 0, 1)) for x in (key, value))
        more = (0, key.shape[1] - n_given)
        bias = None if masks.bias is None else nn.functional.pad(masks.bias, more)
        allowed = None if masks.allowed is None else nn.functional.pad(masks.allowed, more, value=True)
        return key, value, Masks(bias, allowed)

    def extra_repr(self) -> str:
        return ", ".join(filter(None, [f"{self.embed_dim}, {self.num_heads}", shown(normalizer=self.normalizer)]))


def _each(change: Callable[[Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """Changes all three; what was one tensor stays one tensor, so that one product projects it."""
    changed = change(key)
    return changed if query is key else change(query), changed, changed if value is key else change(value)
