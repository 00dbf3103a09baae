"""What belongs to one lab: its pictures, its cases, its recorded figures. `warpschool` never imports it."""
