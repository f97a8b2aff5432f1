try {
  const theme = localStorage.getItem("deepwork.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {}
