/* The theme's search is a dialog without a name, which screen readers would like to say. */
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
