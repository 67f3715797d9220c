"""How far long work has come: stages that are told, and a line that shows them."""
