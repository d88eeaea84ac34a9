"""The native entries for structures, each beside its specification or with the name of the file that specifies it.

| file                      | what the native entry computes           | specification                          |
|---------------------------|------------------------------------------|----------------------------------------|
| `chains.py`               | sweeps over a chain                      | `inference/hypergraphs/sweeps.py`      |
| `alignments.py`           | sweeps over an alignment grid            | `inference/hypergraphs/sweeps.py`      |
| `trees.py`                | sweeps over the charts of trees          | `inference/hypergraphs/sweeps.py`      |
| `budgets.py`              | sweeps over positions and counts         | `inference/hypergraphs/sweeps.py`      |
| `kbest.py`                | the k best derivations of a hypergraph   | the class `KBest` in that file         |
| `selections.py`           | the best subset of bounded size          | its reference                          |
| `matchings.py`            | the best matching                        | its reference, and `assignment.py`     |
| `best_arborescence.py`    | the best non-projective tree             | its reference                          |
| `matrix_tree.py`          | sums over non-projective trees           | its references, `state_reduction.py`   |
| `arborescence_samples.py` | random non-projective trees              | its reference                          |
| `sparsemap.py`            | the active-set solver of SparseMAP       | `inference/sparsemap/active_set.py`    |

The generic engine and the active set use regularizers and oracles, which are above this room, so they stay in
`inference`. Nothing outside `kernels` calls the native module.
"""
