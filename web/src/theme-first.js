/* Sets the theme before the first paint; the rest of the theme code is in preferences.ts. */
try {
  const theme = localStorage.getItem("deepwork.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {}
