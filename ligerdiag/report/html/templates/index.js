
"use strict";
// Sorting and filtering of a table that can be read without them.
for (const element of document.querySelectorAll(".needs-script")) element.hidden = false;
const table = document.getElementById("cases");
if (table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const filter = document.getElementById("filter");
  const status = document.getElementById("status");
  const shown = document.getElementById("shown");
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function apply() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits = words.every((word) => texts.get(row).includes(word));
      row.hidden = !fits || (status.value !== "" && row.dataset.status !== status.value);
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
  }

  filter.addEventListener("input", apply);
  status.addEventListener("change", apply);
  filter.form.addEventListener("submit", (event) => event.preventDefault());

  const collator = new Intl.Collator("en", { numeric: true });
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const compare =
        head.dataset.sort === "number" ? (one, other) => one - other : (one, other) => collator.compare(one, other);
      rows.sort((one, other) => (rising ? 1 : -1) * compare(value(one), value(other)));
      body.append(...rows);
    });
  });
  apply();
}
