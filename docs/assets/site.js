// The theme calls its search a dialog without saying which.
document.querySelectorAll(".md-search[role=dialog]").forEach((box) => box.setAttribute("aria-label", "Search"));
// What is moved sideways on a phone can be moved by keys, too.
if (matchMedia("(max-width: 640px)").matches)
  document.querySelectorAll("article p:has(> img)").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) Object.assign(box, { tabIndex: 0, role: "group", ariaLabel: "Picture" });
  });
