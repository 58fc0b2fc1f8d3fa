"""Attacks on the whole program: hostile files, filters, requests and races."""
