"""Pieces that several methods share, each tested alone."""
