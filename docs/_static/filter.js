// A field above a table marked "filterable", which keeps the rows that hold all words typed into it,
// and the sections below to which they lead.
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll(".filterable")) {
    const rows = [...box.querySelectorAll("tbody tr")];
    const label = document.createElement("label");
    const field = document.createElement("input");
    const count = document.createElement("output");
    label.className = "filter";
    label.textContent = "Filter ";
    field.type = "search";
    field.placeholder = "for example: FS1, warning, rows";
    label.append(field);
    label.append(count);
    box.prepend(label);
    const show = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const matches = words.every((word) => text.includes(word));
        row.hidden = !matches;
        shown += matches;
        const target = row.querySelector("a[href^='#']");
        const section = target && document.getElementById(target.getAttribute("href").slice(1));
        if (section) section.hidden = !matches;
      }
      count.textContent = words.length ? ` ${shown} of ${rows.length}` : "";
    };
    field.addEventListener("input", show);
  }
});
