"""Inputs, output buffers and returned outputs of calls. A worker and the judge make equal inputs by themselves."""
