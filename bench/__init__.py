"""How true llmload's times are and what it costs, measured against the mock server's own log.

`python -m bench` prints the table of the README. Every figure is taken beside the same figure of a client as this
field writes it (`baseline`), in the same run, in turns, so that a noisy machine meets both.
"""
