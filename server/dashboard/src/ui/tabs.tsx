import type { ComponentChildren } from 'preact';
import { navigate } from './navigation';

export interface Tab {
  id: string;
  label: string;
  to: string;
}

/** Tabs whose panel is part of the address; arrow keys move between them. */
export function Tabs({
  tabs,
  current,
  label,
  children,
}: {
  tabs: Tab[];
  current: string;
  label: string;
  children: ComponentChildren;
}) {
  const onKeyDown = (event: KeyboardEvent) => {
    const at = tabs.findIndex((tab) => tab.id === current);
    let to = -1;
    if (event.key === 'ArrowRight') to = (at + 1) % tabs.length;
    else if (event.key === 'ArrowLeft')
      to = (at + tabs.length - 1) % tabs.length;
    else if (event.key === 'Home') to = 0;
    else if (event.key === 'End') to = tabs.length - 1;
    const tab = tabs[to];
    if (!tab) return;
    event.preventDefault();
    navigate(tab.to, true);
    document.getElementById(`tab-${tab.id}`)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            id={`tab-${tab.id}`}
            type="button"
            role="tab"
            aria-selected={tab.id === current}
            aria-controls="tab-panel"
            tabIndex={tab.id === current ? 0 : -1}
            onClick={() => navigate(tab.to, true)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div
        id="tab-panel"
        role="tabpanel"
        aria-labelledby={`tab-${current}`}
        tabIndex={-1}
      >
        {children}
      </div>
    </>
  );
}
