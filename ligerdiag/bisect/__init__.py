"""Finds what makes a case right or wrong: axes that vary a compile, and searches over the variations."""
