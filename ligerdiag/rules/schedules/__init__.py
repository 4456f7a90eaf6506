"""Rules about schedules that break a program which is right as written, one rule in each file."""
