"""Mutation testing: are faults that are put into the library on purpose found by its tests?"""
