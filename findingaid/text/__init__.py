"""Text analysis: structure, sentences, words and repeats."""
