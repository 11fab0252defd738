// j and k go to the next row and the one before.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !["j", "k"].includes(event.key)) return;
  const rows = [...document.querySelectorAll(".audited")];
  const at = rows.indexOf(document.activeElement.closest(".audited"));
  const next = rows[Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), rows.length - 1)];
  if (next) { next.focus(); next.scrollIntoView({ block: "start" }); }
});
