"""Text or token ids in, one small profile out; no torch."""
