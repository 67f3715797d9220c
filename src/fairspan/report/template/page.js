"use strict";
// Sorting, walking and downloads. Every value comes from the page's own tables and its JSON, and is put there
// as text.
(() => {
  const said = document.getElementById("said");
  const sorting = [];

  // ---- Tables whose headings sort: by data-value, empty ones last, equal ones as they were. ----
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      sorting.push([heading, button]);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        for (const other of headings) other.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...sorted(rows, column, down));
        said.textContent =
          `Sorted by ${button.textContent.trim()}, ${down ? "descending" : "ascending"}.`;
      });
    });
  }

  function sorted(rows, column, down) {
    const value = (row) => row.cells[column].dataset.value;
    const filled = rows.filter((row) => value(row) !== "");
    const empty = rows.filter((row) => value(row) === "");
    // By one rule for the whole column: groups may be called 9, 10 and 1a.
    const isFigures = filled.every((row) => isFinite(value(row)));
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      const order = isFigures ? x - y : x.localeCompare(y, "en", { numeric: true });
      return down ? -order : order;
    };
    return [...filled.sort(compare), ...empty];
  }

  // ---- The walk: the slider chooses a step, whose texts, marks and loadings are shown. ----
  const source = document.getElementById("walk-steps");
  if (source) walk(JSON.parse(source.textContent));

  function walk({ steps, jumps }) {
    const slider = document.getElementById("walk-slider");
    const output = document.getElementById("walk-said");
    const cells = document.querySelectorAll("[data-shows]");
    const marks = document.querySelectorAll("[data-mark]");
    const loadings = document.querySelectorAll("[data-loading]");
    const buttons = document.querySelectorAll("[data-jump]");

    function show(index) {
      const step = steps[index];
      for (const cell of cells) cell.textContent = step.texts[cell.dataset.shows] ?? "";
      for (const mark of marks) {
        const place = step.marks[mark.dataset.mark];
        mark.setAttribute("visibility", place ? "visible" : "hidden");
        if (place) mark.setAttribute("cx", place[0]);
        if (place) mark.setAttribute("cy", place[1]);
      }
      for (const cell of loadings) {
        const [component, feature] = cell.dataset.loading.split(" ");
        paint(cell, step.loadings[component]?.[feature]);
      }
      for (const button of buttons) {
        button.setAttribute("aria-pressed", String(jumps[button.dataset.jump] === index));
      }
      slider.setAttribute("aria-valuetext", step.label);
      output.textContent = step.said;
    }

    slider.addEventListener("input", () => show(Number(slider.value)));
    for (const button of buttons) {
      button.addEventListener("click", () => {
        slider.value = jumps[button.dataset.jump];
        show(Number(slider.value));
      });
    }
    // A page that is opened again may keep the slider where it was.
    show(Number(slider.value));
    document.getElementById("walk-controls").hidden = false;
  }

  // As in the table that the page comes with.
  function paint(cell, value) {
    const known = value !== undefined;
    cell.textContent = known ? value.toFixed(2).replace("-", "\u2212") : "";
    cell.className = !known || value === 0 ? "" : value > 0 ? "up" : "down";
    cell.style.setProperty("--strength", known ? Math.abs(value) : 0);
  }

  // ---- Only what scrolls is a stop for the keyboard. ----
  function mark() {
    for (const box of document.querySelectorAll(".scroll, .drawn, pre")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }
  window.addEventListener("resize", mark);
  document.addEventListener("toggle", mark, true);
  mark();

  // ---- Tables as CSV and all figures as JSON, made here: nothing is asked for. ----
  for (const table of document.querySelectorAll("table")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "download";
    button.textContent = "CSV";
    const named = table.caption.textContent.trim();
    button.setAttribute("aria-label", `Download as CSV: ${named}`);
    button.addEventListener("click", () => {
      const rows = [...table.rows].map((row) => [...row.cells].map(plain).join(","));
      save(`${named.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.csv`, "text/csv", rows.join("\r\n"));
    });
    table.caption.append(" ", button);
  }
  const facts = document.getElementById("download-facts");
  facts.hidden = false;
  facts.addEventListener("click", () => {
    save("facts.json", "application/json", document.getElementById("facts").textContent);
  });

  // A cell's whole figure where it has one; otherwise its text, quoted as CSV asks for.
  function plain(cell) {
    const text = (cell.dataset.value || cell.innerText).trim().replace(/\s+/g, " ");
    const safe = /^[=+@-]/.test(text) && !isFinite(text.replace("\u2212", "-")) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function save(name, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  // ---- Print has headings as text: buttons are not repeated on each page. Notes are printed. ----
  const closed = [];
  window.addEventListener("beforeprint", () => {
    closed.push(...document.querySelectorAll("details.printed:not([open])"));
    for (const each of closed) each.open = true;
    for (const [heading, button] of sorting) {
      heading.append(...button.childNodes);
      button.remove();
    }
  });
  window.addEventListener("afterprint", () => {
    for (const each of closed.splice(0)) each.open = false;
    for (const [heading, button] of sorting) {
      button.append(...heading.childNodes);
      heading.append(button);
    }
  });
})();
