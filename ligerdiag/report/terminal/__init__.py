"""The report as text for people: styled spans, tables, sentences; only `terminal` knows rich."""
