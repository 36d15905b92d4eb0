"""The paper's theory as pure functions: numpy in, numpy out; no torch, no files.

    signal.py     regimes of a mask, and how often a law visits them (P_S, P_N)
    optimum.py    the laws that are best for the signal, and for the number of samples
    identify.py   how many samples identify the secret set, and the procedure that does
    energy.py     effective loss and energy landscape, exact on small n by enumeration
    mixture.py    Signal(t) of a mixture of n-gram dependencies, and its optimum

Letters are the paper's: n input bits, k of them secret, n' = n + 1 positions, the last one the parity bit, t the mask
ratio. `weights` maps the order i of an n-gram to its weight; a dependency of order i has k = i - 1 inputs.
"""
