/** Follows the style that was chosen in Cockpit: `light`, `dark` or that of the browser. */
export function followTheme(): void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const apply = (chosen = localStorage.getItem('shell:style') ?? 'auto') => {
    const isDark = chosen === 'dark' || (chosen === 'auto' && system.matches);
    document.documentElement.classList.toggle('pf-v6-theme-dark', isDark);
  };
  addEventListener('storage', ({ key }) => {
    if (key === 'shell:style') apply();
  });
  // Of the shell in the same window, which gets no event of its own storage.
  addEventListener('cockpit-style', (event) => {
    if (event instanceof CustomEvent && typeof event.detail?.style === 'string') apply(event.detail.style);
  });
  system.addEventListener('change', () => apply());
  apply();
}
