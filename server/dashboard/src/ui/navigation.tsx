import type { ComponentChildren, JSX } from 'preact';
import { parseRoute, type Route } from '../model/route';
import { Store } from '../model/store';

function here(): Route {
  return parseRoute(location.pathname, location.search);
}

export const route = new Store<Route>(here());

window.addEventListener('popstate', () => route.set(here()));

/** `replace`: no new entry in the history, for filters that are being typed. */
export function navigate(to: string, replace = false): void {
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  const before = route.value;
  route.set(here());
  const now = route.value;
  if (before.page !== now.page || before.id !== now.id) window.scrollTo(0, 0);
}

interface LinkProps extends Omit<
  JSX.HTMLAttributes<HTMLAnchorElement>,
  'icon'
> {
  to: string;
  class?: string;
  children?: ComponentChildren;
}

export function Link({ to, children, ...rest }: LinkProps) {
  return (
    <a
      href={to}
      {...rest}
      onClick={(event) => {
        if (event.defaultPrevented || event.button !== 0) return;
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
          return;
        event.preventDefault();
        navigate(to);
      }}
    >
      {children}
    </a>
  );
}
