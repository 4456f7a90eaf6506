"""Rules about kernels, declarations and programs that are wrong whatever the schedule does; one file a rule."""
