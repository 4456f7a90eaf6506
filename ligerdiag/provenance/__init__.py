"""Finds out which value of the program each instruction of the schedule has, who made it, and on what evidence."""
