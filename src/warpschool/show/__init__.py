"""What `ws.show_access`, `ws.show_fragments`, `ws.show_timeline`, `ws.roofline` and `ws.diff` show."""
