/* Runs before anything is painted; the rest of the theme is in theme.ts. */
try {
  const theme = localStorage.getItem("deepwork.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {}
