import { Store } from '../model/store';

export type Theme = 'auto' | 'light' | 'dark';

const KEY = 'comera-theme';

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'auto';
  } catch {
    return 'auto';
  }
}

export const theme = new Store<Theme>(stored());

const media = matchMedia('(prefers-color-scheme: dark)');

/** Whether the page is dark; changes are told after it has its new colours. */
export const dark = new Store(false);

function apply(): void {
  const isDark =
    theme.value === 'dark' || (theme.value === 'auto' && media.matches);
  document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
  dark.set(isDark);
}

apply();
media.addEventListener('change', apply);
theme.follow((value) => {
  try {
    if (value === 'auto') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, value);
  } catch {
    // Where there is no storage, the choice lasts as long as the page.
  }
  apply();
});

/** The value of a custom property, for canvases. */
export function cssColor(name: string): string {
  return getComputedStyle(document.documentElement)
    .getPropertyValue(name)
    .trim();
}
