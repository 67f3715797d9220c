"""FairPCA, the scikit-learn estimator, and the fit that it shares with audit and command line."""
