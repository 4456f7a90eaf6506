"""Artifacts: directories, each with the results of one compilation and named by hashes of its inputs."""
