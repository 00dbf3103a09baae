"""What can be known of a kernel before it runs: lane patterns, where pointers lead, how machine code merges loads."""
