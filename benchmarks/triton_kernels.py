"""Compiles the Triton kernels ahead for GPUs that are not here, and lists what the compiler says they need.

    python benchmarks/triton_kernels.py

Triton brings NVIDIA's assembler, so registers, shared memory and spilled bytes are known without a device. How fast the
kernels are is not. Each finished cell is a line of results/triton_kernels_cells.jsonl and is not compiled again.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from omegamax.kernels.triton import attention_backward, attention_forward, row_products, rows, scores

RESULTS = Path(__file__).parent / "results"
CELLS = RESULTS / "triton_kernels_cells.jsonl"
TABLE = RESULTS / "triton_kernels.md"
CAPABILITIES = (80, 90)
SHARED_LIMIT = {80: 163 * 1024, 90: 227 * 1024}  # bytes that one program may have
ORDERS = {"sparsemax": 2.0, "entmax15": 1.5, "entmax(1.3)": 1.3}
TYPES = {"fp32": triton.language.float32, "fp64": triton.language.float64}
# What is not a pointer to numbers of the type of the inputs.
INTEGERS = ("n_", "mask_", "bias_")
POINTERS = {
    **dict.fromkeys(("blocks", "candidates", "counts"), "*i32"),
    **dict.fromkeys(("active", "joined"), "*i8"),
    **dict.fromkeys(("level", "threshold", "share", "means", "totals", "sizes", "grad_scores"), "*fp32"),
    "mask": "*u8", "lengths": "*i64", "bias": "*fp32", "scale": "fp32",
}  # fmt: skip


def cells():
    """Yields the name of each cell, its kernel, the type of its inputs and its constants."""
    for name, alpha in ORDERS.items():
        for kind in ("fp32", "bf16", "fp64") if name == "entmax15" else ("fp32",):
            compute = "fp64" if kind == "fp64" else "fp32"
            steps = rows.STEPS[rows.torch.float64 if kind == "fp64" else rows.torch.float32]
            shape = {"compute": TYPES[compute], "ROWS": 2, "COLUMNS": 1024}
            order = rows.order_of(alpha)
            yield f"{name}, rows", rows.solve_rows, kind, dict(e=alpha - 1, ORDER=order, STEPS=steps, **shape)
            yield f"{name}, product", row_products.multiply_rows, kind, dict(alpha=alpha, ORDER=order, **shape)
    shape = {"compute": TYPES["fp32"], "COLUMNS": 1024}
    yield "fusedmax, product", row_products.multiply_segments, "fp32", shape
    heads = ((64, "fp32", False), (64, "fp32", True), (64, "bf16", False), (128, "fp32", False), (256, "fp32", False))
    for size, kind, whole in heads:
        queries, keys = scores.tile_sizes(size, size)
        flags = dict.fromkeys(("HAS_LENGTHS", "HAS_MASK", "HAS_BIAS"), whole) | {"CAUSAL": True}
        constants = dict(
            e=0.5, ORDER=3, SIZE=size, VALUE_SIZE=size, FEATURES=size, VALUE_FEATURES=size,
            QUERIES=queries, KEYS=keys, **flags,
        )  # fmt: skip
        what = f"entmax15, {size} features{', lengths, mask and bias' if whole else ''}"
        yield f"attention, {what}", attention_forward.attend, kind, dict(STEPS=140, **constants)
        yield (
            f"its query gradient, {what}",
            attention_backward.query_gradient,
            kind,
            dict(WANTS_SCORES=whole, **constants),
        )
        yield f"its key gradient, {what}", attention_backward.key_gradient, kind, constants


def signature(kernel, kind: str, constants: dict) -> dict[str, str]:
    found = {}
    for name in inspect.signature(kernel.fn).parameters:
        if name in constants:
            found[name] = "constexpr"
        elif name in POINTERS:
            wide = "*fp64" if kind == "fp64" else "*fp32"
            found[name] = wide if name in ("totals", "sizes") else POINTERS[name]
        else:
            found[name] = "i32" if name.startswith(INTEGERS) else f"*{kind}"
    return found


def compiled(kernel, kind: str, constants: dict, capability: int) -> dict[str, int]:
    names = list(inspect.signature(kernel.fn).parameters)
    source = ASTSource(
        kernel, signature(kernel, kind, constants), {(names.index(name),): value for name, value in constants.items()}
    )
    options = {"num_warps": scores.WARPS if "QUERIES" in constants else 4, "enable_fp_fusion": False}
    log = io.StringIO()
    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.compilation.always_compile = True
    with contextlib.redirect_stdout(log):
        binary = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    told = log.getvalue()
    return {
        "registers": int(re.search(r"Used (\d+) registers", told)[1]),
        "shared": binary.metadata.shared,
        "spilled": sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", told))),
    }


def main() -> None:
    done = {}
    if CELLS.exists():
        for line in CELLS.read_text(encoding="utf-8").splitlines():
            cell = json.loads(line)
            done[cell["kernel"], cell["type"], cell["capability"]] = cell
    lines = []
    for name, kernel, kind, constants in cells():
        shown = []
        for capability in CAPABILITIES:
            cell = done.get((name, kind, capability))
            if cell is None:
                cell = {"kernel": name, "type": kind, "capability": capability, "triton": triton.__version__}
                cell |= compiled(kernel, kind, constants, capability)
                with CELLS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(cell) + "\n")
            assert cell["shared"] <= SHARED_LIMIT[capability], cell
            shown += [cell["registers"], cell["shared"], cell["spilled"]]
        lines.append(f"| {name} | {kind} | {' | '.join(map(str, shown))} |")
        print(lines[-1], flush=True)
    heads = [f"sm_{c} {what}" for c in CAPABILITIES for what in ("registers", "shared bytes", "spilled bytes")]
    head = f"| kernel | inputs | {' | '.join(heads)} |\n|---|---|{'---:|' * len(heads)}\n"
    text = (
        "# Triton kernels, compiled ahead\n\nRegisters of a thread, shared memory of a program, and bytes stored to "
        "and loaded from memory because registers did not suffice.\n"
        "Attention has 8 warps, rows have 4. Compiled, not run: no GPU was there.\n"
        f"Triton {triton.__version__}, `python benchmarks/triton_kernels.py`.\n\n"
    )
    TABLE.write_text(text + head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
