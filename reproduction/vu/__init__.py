"""The experiments of Vu, Tran, Yue and Nguyen (2022), RFPCA: tables 1, 3, 4 and their figures.

"Distributionally Robust Fair Principal Components via Geodesic Descents", ICLR 2022; its section 5
and appendix D say how they were made.
"""
