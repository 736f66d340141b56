"""The desk's question: which router to use for orders of a size, what it saves, where it loses, what was assumed."""
