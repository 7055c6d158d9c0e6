"use strict";
// versions.js, which lies beside the folders of the versions, has their pages. A page of a version that stands alone keeps its number.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof foveateVersions === "undefined") return;
  for (const place of document.querySelectorAll(".version")) {
    const { here, page, up } = place.dataset;
    const select = document.createElement("select");
    select.setAttribute("aria-label", place.dataset.label);
    for (const name of foveateOrder) select.append(new Option(name, name, name === here, name === here));
    select.addEventListener("change", () => {
      const pages = foveateVersions[select.value];
      const [language] = page.split("/");
      const target = [page, `${language}/index.html`, "en/index.html"].find((each) => pages.includes(each));
      location.assign(`${up}${select.value}/${target}`);
    });
    place.replaceChildren(place.dataset.label, " ", select);
  }
});
