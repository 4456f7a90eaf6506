"""Rules about hazards of the schedule, which breaks a program that is right as written; each file holds one rule."""
