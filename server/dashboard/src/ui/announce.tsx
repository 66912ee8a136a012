import { Store, useStore } from '../model/store';

const message = new Store('');

/** Says something to those who listen instead of look. */
export function announce(text: string): void {
  message.set(text);
}

export function Announcer() {
  return (
    <div class="sr-only" role="status" aria-live="polite">
      {useStore(message)}
    </div>
  );
}
