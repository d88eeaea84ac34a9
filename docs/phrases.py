"""Writes the page phrases.md: examples where a trained model reads phrases, with a picture of each.

    python docs/phrases.py RUN --beside OTHER_RUN --beside ANOTHER --split test --count 12

RUN is a run of translate or summarize with fusedmax; the others have another attention and the same data. The page says
how often each of them reads a phrase.
"""

import argparse
from pathlib import Path

import torch
from gallery import shrunk

from omegamax.cli.attend import draw_beside
from omegamax.comparisons.phrases import phrases, richest
from omegamax.comparisons.statistics import attention_statistics
from omegamax.data.printable import printable
from omegamax.data.vocabulary import END, JOINER, SPECIAL
from omegamax.recipes import load

DOCS = Path(__file__).resolve().parent
INTRODUCTION = """What a model reads for a word that it writes may be several words: "show up", "be able to". Fusedmax
can say so: it gives neighbours exactly the same weight, and others none. A *phrase* is here a run of two or more words
with one weight, which together have at least half of the attention of an output token. Below are the examples with the
most words in phrases, for their length, and beside them other models that were trained in the same way. Rows are what
is written, columns what is read; grey is exactly zero, and there is no border between neighbours of equal weight. A
square joins a piece of a word to the one before."""


def maps_of(found, examples, batch_size=64):
    with torch.no_grad():
        starts = range(0, len(examples), batch_size)
        return [each for at in starts for each in found.task.attend(found.model, examples[at : at + batch_size])]


def written(token) -> str:
    return "the end" if token == SPECIAL[END] else f"“{text_of([token])}”"


def text_of(tokens) -> str:
    return printable(" ".join(tokens).replace(f" {JOINER}", "").removeprefix(JOINER))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--beside", type=Path, action="append", default=[], help="another run on the same data")
    parser.add_argument("--split", default="test", choices=("dev", "test"))
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--most", type=int, default=30, help="tokens of a source")
    parser.add_argument("--about", default="", help="a sentence for the page: what was trained on which data")
    parser.add_argument("--out", type=Path, default=DOCS / "phrases.md")
    options = parser.parse_args()
    pictures = options.out.parent / "images"
    pictures.mkdir(parents=True, exist_ok=True)
    loaded = [load(path) for path in (options.run, *options.beside)]
    runs = {found.task.settings.attention: found for found in loaded}
    first = next(iter(runs))
    examples = [e for e in runs[first].task.examples(options.split) if len(e.source) <= options.most]
    maps = {name: maps_of(found, examples) for name, found in runs.items()}
    lines = ["# Phrases that attention selects", "", f"{INTRODUCTION} {options.about}".strip(), ""]
    lines += [
        f"Over {len(examples)} examples of the {options.split} data, each with the output that the model itself writes:"
    ]
    lines += [""]
    lines += ["| attention | tokens read | segments longer than one token | output tokens that read a phrase |"]
    lines += ["|---|---|---|---|"]
    for name, several in maps.items():
        counted = attention_statistics(several)
        share = sum(len({p.row for p in phrases(each)}) for each in several) / max(1, counted.n_rows)
        lines.append(f"| {name} | {counted.support:.2f} | {100 * counted.long_segments:.1f} % | {100 * share:.1f} % |")
    for number, (place, shown) in enumerate(richest(maps[first], options.count), start=1):
        picture = pictures / f"phrase_{number}.png"
        draw_beside({name: several[place] for name, several in maps.items()}).savefig(picture)
        shrunk(picture)
        lines += ["", f"## {number}. {text_of(shown.columns)}", ""]
        for phrase in phrases(shown):
            words = text_of(shown.columns[phrase.start : phrase.end])
            lines.append(f"- {written(shown.rows[phrase.row])} reads “{words}” ({100 * phrase.weight:.0f} %)")
        lines += ["", f"![attention of {', '.join(runs)}](images/{picture.name})"]
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
