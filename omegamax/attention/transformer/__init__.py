"""The Transformer: layers, stacks of them, and models over tokens."""
