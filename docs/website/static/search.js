"use strict";
(async () => {
  const list = document.getElementById("search-results");
  const query = new URLSearchParams(location.search).get("q") ?? "";
  for (const input of document.querySelectorAll(".sidebar-search")) input.value = query;
  const pagefind = await import(new URL(list.dataset.pagefind, location.href).href);
  const { results } = await pagefind.search(query);
  const pages = await Promise.all(results.slice(0, 30).map((result) => result.data()));
  list.dataset.count = String(results.length);
  for (const { url, meta, excerpt } of pages) {
    const item = document.createElement("p");
    const link = Object.assign(document.createElement("a"), { href: url, textContent: meta.title ?? url });
    const text = Object.assign(document.createElement("span"), { innerHTML: excerpt });
    item.append(link, document.createElement("br"), text);
    list.append(item);
  }
  if (pages.length === 0) list.textContent = "∅";
})();
