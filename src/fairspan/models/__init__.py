"""Models as they are: whatever reduces rows and brings them back."""
