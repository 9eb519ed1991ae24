"""A chat API with known times, faults on demand and the truth about every request.

It stands beside the load generator and shares no protocol or stream code with it:
a mistake in shared code would cancel out.
"""
