"""Compares two reports: reads them, finds their differences, and puts these into words."""
