"use strict";
// Table sorting, slider and downloads. All values come from the page's own tables and JSON and are
// inserted as text.
(() => {
  const statusRegion = document.getElementById("status");
  const sortButtons = [];

  // ---- Sortable tables: stable sort by data-value, empty values last. ----
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      sortButtons.push([heading, button]);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const descending = heading.getAttribute("aria-sort") === "ascending";
        const direction = descending ? "descending" : "ascending";
        for (const other of headings) other.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", direction);
        body.append(...sorted(rows, column, descending));
        statusRegion.textContent = `Sorted by ${button.textContent.trim()}, ${direction}.`;
      });
    });
  }

  function sorted(rows, column, descending) {
    const value = (row) => row.cells[column].dataset.value;
    const filled = rows.filter((row) => value(row) !== "");
    const empty = rows.filter((row) => value(row) === "");
    // Use one comparison per column: group names may be 9, 10 and 1a.
    const isNumeric = filled.every((row) => isFinite(value(row)));
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      const order = isNumeric ? x - y : x.localeCompare(y, "en", { numeric: true });
      return descending ? -order : order;
    };
    return [...filled.sort(compare), ...empty];
  }

  // ---- Tables that are wider than a phone: there, each cell gets a line with its heading. ----
  const maxPhoneColumns = 3;
  for (const table of document.querySelectorAll("table:not([class]), .sortable, .decisions")) {
    const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    if (headings.length <= maxPhoneColumns && !table.classList.contains("decisions")) continue;
    table.classList.add("stacks");
    for (const cell of table.querySelectorAll("td")) cell.dataset.label = headings[cell.cellIndex];
  }

  // ---- Slider: shows the texts, marks and loadings of the selected step. ----
  const source = document.getElementById("slider-data");
  if (source) initSlider(JSON.parse(source.textContent));

  function initSlider({ steps, shortcuts }) {
    const slider = document.getElementById("slider");
    const output = document.getElementById("slider-announcement");
    const cells = document.querySelectorAll("[data-text]");
    const marks = document.querySelectorAll("[data-mark]");
    const loadings = document.querySelectorAll("[data-loading]");
    const buttons = document.querySelectorAll("[data-shortcut]");
    const stepLabels = document.querySelectorAll("[data-step-label]");

    function showStep(index) {
      const step = steps[index];
      for (const cell of cells) cell.textContent = step.texts[cell.dataset.text] ?? "";
      for (const mark of marks) {
        const position = step.marks[mark.dataset.mark];
        mark.setAttribute("visibility", position ? "visible" : "hidden");
        if (position) mark.setAttribute("cx", position[0]);
        if (position) mark.setAttribute("cy", position[1]);
      }
      for (const cell of loadings) {
        const [component, feature] = cell.dataset.loading.split(" ");
        setLoading(cell, step.loadings[component]?.[feature]);
      }
      for (const button of buttons) {
        const isPressed = shortcuts[button.dataset.shortcut] === index;
        button.setAttribute("aria-pressed", String(isPressed));
      }
      for (const label of stepLabels) label.textContent = step.label;
      slider.setAttribute("aria-valuetext", step.label);
      output.textContent = step.announcement;
    }

    slider.addEventListener("input", () => showStep(Number(slider.value)));
    for (const button of buttons) {
      button.addEventListener("click", () => {
        slider.value = shortcuts[button.dataset.shortcut];
        showStep(Number(slider.value));
      });
    }
    // Browsers may restore the slider's position.
    showStep(Number(slider.value));
    document.getElementById("slider-controls").hidden = false;
  }

  // Same format as in the static table.
  function setLoading(cell, value) {
    const isKnown = value !== undefined;
    cell.textContent = isKnown ? value.toFixed(2).replace("-", "\u2212") : "";
    cell.className = !isKnown || value === 0 ? "" : value > 0 ? "up" : "down";
    cell.style.setProperty("--strength", isKnown ? Math.abs(value) : 0);
  }

  // ---- Make only scrollable boxes keyboard-focusable, and say that they scroll. ----
  function updateTabStops() {
    for (const box of document.querySelectorAll(".scroll, .figure-scroll, pre")) {
      const overflows = box.scrollWidth > box.clientWidth;
      if (overflows) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      box.classList.toggle("overflows", overflows && box.tagName !== "PRE");
    }
  }
  window.addEventListener("resize", updateTabStops);
  document.addEventListener("toggle", updateTabStops, true);
  updateTabStops();

  // ---- CSV and JSON downloads, generated locally without requests. ----
  for (const table of document.querySelectorAll("table")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "download";
    button.textContent = "CSV";
    const caption = table.caption.textContent.trim();
    const fileName = `${caption.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.csv`;
    button.setAttribute("aria-label", `Download as CSV: ${caption}`);
    button.addEventListener("click", () => {
      const lines = [...table.rows].map((row) => [...row.cells].map(csvValue).join(","));
      save(fileName, "text/csv", lines.join("\r\n"));
    });
    table.caption.append(" ", button);
  }
  const downloadButton = document.getElementById("download-data");
  downloadButton.hidden = false;
  downloadButton.addEventListener("click", () => {
    save("facts.json", "application/json", document.getElementById("report-data").textContent);
  });

  // Full-precision value of a cell, or its text, with CSV quoting.
  function csvValue(cell) {
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

  // ---- For printing, replace header buttons by text (browsers do not repeat buttons on every
  // page) and open the notes. ----
  const openedForPrint = [];
  window.addEventListener("beforeprint", () => {
    openedForPrint.push(...document.querySelectorAll("details.open-in-print:not([open])"));
    for (const details of openedForPrint) details.open = true;
    for (const [heading, button] of sortButtons) {
      heading.append(...button.childNodes);
      button.remove();
    }
  });
  window.addEventListener("afterprint", () => {
    for (const details of openedForPrint.splice(0)) details.open = false;
    for (const [heading, button] of sortButtons) {
      button.append(...heading.childNodes);
      heading.append(button);
    }
  });
})();
