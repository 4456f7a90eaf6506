"""Describes a judged schedule for people: views, neighbourhoods, drift. It decides no verdict."""
