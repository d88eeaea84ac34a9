"""JoeyNMT on the same files, with the same sub-words and the same time: the peer of benchmarks/translate.py.

It runs in an environment of its own, whose Python is named by --joeynmt: its dependencies are old. What was tried:

    pip install --no-deps joeynmt                  2.3.0 installs
    pip install --no-deps sentencepiece subword-nmt importlib_metadata plotly zipp tensorboard absl-py protobuf werkzeug

and it needs torch, numpy, pyyaml, sacrebleu, matplotlib, tqdm and packaging, which ours has. Its tokenizer is switched
off: it reads our sub-words with blanks between them, and its outputs are joined and scored as ours are.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

SPLITS = ("train", "dev", "test")
MAX_TOKENS, BATCH_SIZE = 4000, 128  # as the Transformer of the bars


def write_corpus(data: Path, folder: Path, *, max_tokens: int) -> Any:
    """Writes the tokens of all splits, one file for each side, and returns the task that made them."""
    from omegamax.recipes.settings import TranslateSettings
    from omegamax.recipes.translate import Translate

    task = Translate.prepare(TranslateSettings(data=str(data), max_tokens=max_tokens, vocabulary="joint"))
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        pairs = task.examples(split)
        targets = task.target_tokens.split([pair.target for pair in pairs])
        (folder / f"{split}.src").write_text("".join(" ".join(pair.source) + "\n" for pair in pairs))
        (folder / f"{split}.trg").write_text("".join(" ".join(tokens) + "\n" for tokens in targets))
    words = [token for token in task.target.to_json() if not token.startswith("<")]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return task


def config(folder: Path, *, beam: int, n_layers: int, size: int, steps_per_epoch: int) -> str:
    """The configuration of a Transformer of our shape; JSON is YAML too."""
    side = {"lang": "src", "level": "word", "lowercase": False, "tokenizer_type": "none", "voc_limit": 20_000}
    side |= {"voc_file": str(folder / "vocab.txt"), "max_length": 100, "normalize": False}
    layer = {"type": "transformer", "num_layers": n_layers, "num_heads": 4, "hidden_size": size, "ff_size": 1024}
    layer |= {"embeddings": {"embedding_dim": size, "scale": True, "dropout": 0.0}, "dropout": 0.1}
    layer |= {"layer_norm": "pre"}
    content = {
        "name": "peer",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": 0,
        "data": {
            **{split: str(folder / split) for split in SPLITS},
            "dataset_type": "plain",
            "src": side,
            "trg": {**side, "lang": "trg"},
        },
        "training": {
            "optimizer": "adamw",
            "normalization": "tokens",
            "scheduling": "warmupinversesquareroot",
            "learning_rate": 1e-3,
            "learning_rate_warmup": 400,
            "label_smoothing": 0.1,
            "loss": "crossentropy",
            "clip_grad_norm": 1.0,
            "batch_size": BATCH_SIZE,
            "batch_type": "sentence",
            "early_stopping_metric": "bleu",
            "epochs": 100,
            "validation_freq": steps_per_epoch,
            "logging_freq": steps_per_epoch,  # must divide validation_freq
            "overwrite": True,
            "shuffle": True,
            "keep_best_ckpts": 1,
        },
        "testing": {
            "n_best": 1,
            "beam_size": beam,
            "beam_alpha": 1.0,
            "batch_size": 64,
            "batch_type": "sentence",
            "max_output_length": 100,
            "eval_metrics": ["bleu"],
        },
        "model": {
            "initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": layer,
            "decoder": layer,
        },
    }
    return json.dumps(content, indent=1)


def measure(python: Path, data: Path, out: Path, *, minutes: float, beam: int, threads: int) -> dict[str, Any]:
    """Trains JoeyNMT for some minutes, translates the test data with its best checkpoint, and scores the texts."""
    task = write_corpus(data, out, max_tokens=MAX_TOKENS)
    steps_per_epoch = max(1, len(task.examples("train")) // BATCH_SIZE)
    (out / "config.yaml").write_text(config(out, beam=beam, n_layers=3, size=256, steps_per_epoch=steps_per_epoch))
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    tool = [str(python), "-m", "joeynmt"]
    began = time.monotonic()
    process = subprocess.Popen([*tool, "train", str(out / "config.yaml"), "--skip-test"], env=environment)
    try:
        process.wait(60 * minutes)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # its best checkpoint so far is on the disk
        process.wait()
    seconds = time.monotonic() - began
    written = out / "outputs"
    best = out / "model" / "best.ckpt"
    if not best.exists():
        raise SystemExit(f"translate: JoeyNMT has validated nothing in {minutes} minutes; give it more --cell-minutes")
    command = [*tool, "test", str(out / "config.yaml"), "--output-path", str(written)]
    subprocess.run(command, check=True, env=environment)
    texts = [task.target_tokens.join(line.split()) for line in Path(f"{written}.test").read_text().splitlines()]
    examples = task.examples("test")
    return {
        "metrics": task.score(examples, texts),
        "outputs": texts,
        "signatures": task.signatures(examples),
        "seconds": seconds,
        "finished": process.returncode == 0,
    }
