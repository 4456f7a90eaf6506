"""Rules about what a schedule does to a program that is right as it is written; one file a rule."""
