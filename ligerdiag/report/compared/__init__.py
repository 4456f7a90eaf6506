"""Two reports side by side: what they hold, where they differ, and the words for it."""
