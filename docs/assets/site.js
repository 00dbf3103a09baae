// The theme calls its search a dialog without saying which.
document.querySelectorAll(".md-search[role=dialog]").forEach((box) => box.setAttribute("aria-label", "Search"));
