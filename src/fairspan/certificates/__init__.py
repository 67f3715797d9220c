"""Certificates of optimality: the record of a solution, its status and the proof of its bound."""
