"""Small random Hugging Face models, two padded sentences for them, and what comes out."""

import torch
import transformers

from omegamax import operator_table

NAMES = tuple(facts.function for facts in operator_table.ungrouped())
TALL = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
SPREAD = 0.3  # of the weights at random: as usual, 0.02, all scores would be alike and nothing sparse
TALL["initializer_range"] = SPREAD
PAIR = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "dropout": 0.0,
    "init_std": SPREAD,
    "pad_token_id": 1,
    "decoder_start_token_id": 2,
    "eos_token_id": None,
    "forced_eos_token_id": None,
}
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
CAUSAL = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
GPT2 = {
    "vocab_size": 40,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 4,
    "initializer_range": SPREAD,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    **CAUSAL,
}
MODELS = {
    "bert": (
        "BertForMaskedLM",
        "BertConfig",
        {**TALL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    ),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**TALL, "num_key_value_heads": 2, **CAUSAL}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {**T5, "decoder_start_token_id": 0, "eos_token_id": None}),
    "bart": ("BartForConditionalGeneration", "BartConfig", PAIR),
    "marian": ("MarianMTModel", "MarianConfig", PAIR),
}
OTHERS = {
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**TALL, "num_key_value_heads": 2, "head_dim": 4}),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**TALL, "num_key_value_heads": 2, "head_dim": 4, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "vit": ("ViTModel", "ViTConfig", {**TALL, "image_size": 16, "patch_size": 8}),
}
IGNORING = {
    "deberta": ("DebertaV2Model", "DebertaV2Config", TALL),
    "longformer": ("LongformerModel", "LongformerConfig", {**TALL, "attention_window": 4}),
    "xlnet": ("XLNetModel", "XLNetConfig", {"vocab_size": 40, "d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 24}),
}
DECODERS, PAIRS = ("gpt2", "llama"), ("t5", "bart", "marian")


def built(kind, attention, **changes):
    model, config, options = {**MODELS, **OTHERS, **IGNORING}[kind]
    torch.manual_seed(0)
    made = getattr(transformers, model)._from_config(
        getattr(transformers, config)(**{**options, **changes}), attn_implementation=attention
    )
    return made.eval()


def batch(kind):
    """Two sentences, the second two words shorter; padded in front where a model continues them."""
    words = torch.randint(3, 40, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, slice(0, 2) if kind in DECODERS else slice(5, 7)] = 0
    inputs = {"input_ids": words, "attention_mask": mask}
    if kind in PAIRS:
        inputs["decoder_input_ids"] = words.flip(0)[:, :5]
    return inputs


def attentions(output):
    keys = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return [weights for key in keys for weights in getattr(output, key, None) or ()]


def real(kind, logits, inputs):
    """Returns the predictions at words; those at padding, to which no word attends, may differ."""
    return logits if kind in PAIRS else logits[inputs["attention_mask"].bool()]
