"""What models do to each group: figures with intervals, and findings in words."""
