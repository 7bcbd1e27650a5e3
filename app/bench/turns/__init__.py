"""Is turn-taking good? A labelled set of conversations, made at run time, held with the real stages and judged."""
