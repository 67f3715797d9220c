"""Where rows come from: each adapter turns one kind of data into the same checked blocks."""
