"""Describes a judged schedule for people: views, neighbourhoods, drift. Off the verdict's path."""
