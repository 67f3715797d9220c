"""Pictures of plain arrays with matplotlib, which is loaded when something is drawn."""
