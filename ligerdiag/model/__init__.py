"""Records of cases, findings, reports, views and jobs: plain data without decisions. Imports the standard library only."""
