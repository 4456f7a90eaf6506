"""A compiler accepts the alias of an input and an output and computes garbage with it."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/aws-neuron/aws-neuron-sdk/issues/1026",
    year=2024,
    versions="Neuron of November 2024",
    kind=Kind.WRONG_DECLARATION,
    reported="with aliased outputs the key-value cache of a model holds garbage on Neuron",
    unreachable="the compiler that breaks the alias is Neuron's, which makes no HLO schedule that can be read here",
)
