"""Certificates of optimality: the record of a solution, its status, and the proofs of lower bounds."""
