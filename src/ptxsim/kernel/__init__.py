"""A module to a kernel of basic blocks: calls inlined or put on a stack, variables placed, blocks in the order
in which lanes meet.
"""
