// The theme makes a navigation of the buttons at each block of code. Without names these are all alike to a screen reader.
new MutationObserver(() => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "presentation");
}).observe(document.body, { childList: true, subtree: true });
