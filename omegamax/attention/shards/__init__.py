"""Attention over a sequence whose parts lie in several processes."""
