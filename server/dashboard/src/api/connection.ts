// Whether the coordinator can be reached. Whoever calls it reports how that
// went; while it is away one probe looks for it, and when it is back everyone is
// told, so that nobody waits for the end of a back-off of their own.
import { Store } from '../model/store';
import { backoff } from './live_state';

export interface Connection {
  online: boolean;
  /** The time at which it was lost, and the number of probes since. */
  since: number;
  tries: number;
}

export const connection = new Store<Connection>({
  online: true,
  since: 0,
  tries: 0,
});

/** Rises each time that the coordinator is back. */
export const returns = new Store(0);

let timer: ReturnType<typeof setTimeout> | undefined;

export function reached(): void {
  if (connection.value.online) return;
  clearTimeout(timer);
  connection.set({ online: true, since: Date.now(), tries: 0 });
  returns.set(returns.value + 1);
}

export function lost(): void {
  if (!connection.value.online) return;
  connection.set({ online: false, since: Date.now(), tries: 0 });
  plan();
}

function plan(): void {
  clearTimeout(timer);
  timer = setTimeout(
    () => void probe(),
    backoff(connection.value.tries, Math.random(), 5000),
  );
}

async function probe(): Promise<void> {
  try {
    const response = await fetch('/healthz', { cache: 'no-store' });
    if (response.status < 502) return reached();
  } catch {
    // Still away.
  }
  if (connection.value.online) return;
  connection.set({ ...connection.value, tries: connection.value.tries + 1 });
  plan();
}

export function retryNow(): void {
  clearTimeout(timer);
  void probe();
}
