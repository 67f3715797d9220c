"""FairPCA: a thin scikit-learn shell around one fit."""
